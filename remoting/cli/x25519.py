"""Keys for sessions: X25519 (RFC 7748) in pure Python.

The packages of the client contain no compiled Python module, because one package serves all
versions of Python. Each key is made once, multiplied with the base point only, and used by one
program, so no observer can time several multiplications with one key.
"""

from __future__ import annotations

import secrets

P = 2**255 - 19
A24 = 121665
BASE_POINT = 9
KEY_BYTES = 32


def generate_private_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def public_key_of(private_key: bytes) -> bytes:
    """Return the public key of a private key."""
    return multiply(private_key, BASE_POINT).to_bytes(KEY_BYTES, "little")


def clamp(private_key: bytes) -> int:
    """Return the scalar of a private key (RFC 7748, section 5)."""
    scalar = bytearray(private_key)
    scalar[0] &= 248
    scalar[31] &= 127
    scalar[31] |= 64
    return int.from_bytes(scalar, "little")


def multiply(private_key: bytes, u: int) -> int:
    """Return the u-coordinate of the scalar of a private key times a point (Montgomery ladder)."""
    scalar = clamp(private_key)
    x2, z2, x3, z3 = 1, 0, u, 1
    for bit in reversed(range(255)):
        if scalar >> bit & 1:
            x3, z3, x2, z2 = step(u, x3, z3, x2, z2)
        else:
            x2, z2, x3, z3 = step(u, x2, z2, x3, z3)
    return x2 * pow(z2, P - 2, P) % P


def step(u: int, x2: int, z2: int, x3: int, z3: int) -> tuple[int, int, int, int]:
    """Double the first point and add both, whose difference is `u`."""
    a, b = x2 + z2, x2 - z2
    aa, bb = a * a % P, b * b % P
    e = aa - bb
    da, cb = (x3 - z3) * a % P, (x3 + z3) * b % P
    return aa * bb % P, e * (aa + A24 * e) % P, (da + cb) ** 2 % P, u * (da - cb) ** 2 % P
