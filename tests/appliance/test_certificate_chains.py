"""Certificates of the appliance's CA, checked as Python 3.13 and later do (RFC 5280)."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from appliance.fleet.certificates import (
    Authority,
    create_authority,
    private_pem,
    server_certificate,
    sign_node_certificate,
)

NODE = uuid.UUID(int=7)
Issued = tuple[Path, Path, str]  # certificate, key, and the name in it


def appliance(authority: Authority, folder: Path) -> Issued:
    return *server_certificate(authority, folder, ["127.0.0.1", "appliance"]), "appliance"


def node(authority: Authority, folder: Path) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    pem = csr.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    certificate = sign_node_certificate(authority, pem, NODE, "data")
    (folder / "node.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "node.key").write_bytes(private_pem(key))
    return folder / "node.pem", folder / "node.key", str(NODE)


@pytest.mark.parametrize("issue", [appliance, node], ids=lambda f: f.__name__)
def test_chain_passes_the_strict_checks(
    issue: Callable[[Authority, Path], Issued], tmp_path: Path
) -> None:
    authority = create_authority(tmp_path)
    pem, key, name = issue(authority, tmp_path)
    trusting = ssl.create_default_context(cadata=authority.pem)
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pem, key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=name)
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    client.do_handshake()
    assert client.getpeercert()
