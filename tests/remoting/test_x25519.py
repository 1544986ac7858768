"""Keys for sessions: test vectors of RFC 7748, and OpenSSL as the oracle."""

from __future__ import annotations

import secrets

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from remoting.cli.x25519 import KEY_BYTES, generate_private_key, multiply, public_key_of


def test_multiplication_matches_rfc_7748() -> None:
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    expected = bytes.fromhex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552")
    product = multiply(scalar, int.from_bytes(point, "little"))
    assert product.to_bytes(KEY_BYTES, "little") == expected


def test_public_keys_match_openssl() -> None:
    keys = [bytes(KEY_BYTES), b"\xff" * KEY_BYTES, *(secrets.token_bytes(32) for _ in range(50))]
    for key in keys:
        oracle = X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()
        assert public_key_of(key) == oracle, key.hex()


def test_generated_keys_differ() -> None:
    assert len({generate_private_key() for _ in range(100)}) == 100
