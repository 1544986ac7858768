"""The appliance's own CA: its key lies 0600 beside the database, never in it."""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NODE_LIFE = timedelta(hours=24)
SERVER_LIFE = timedelta(days=90)
CA_LIFE = timedelta(days=3650)
BACKDATE = timedelta(minutes=5)
"""A node's clock may be a little behind."""


@dataclass(frozen=True)
class Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def write_private(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(data)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_authority(folder: Path) -> Authority:
    """Made at first use."""
    key_path, pem_path = folder / "ca.key", folder / "ca.pem"
    if not key_path.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Busbar CA")])
        builder = base(name, name, key.public_key(), CA_LIFE)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        pem_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_private(key_path, private_pem(key))
    loaded = serialization.load_pem_private_key(key_path.read_bytes(), None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    return Authority(x509.load_pem_x509_certificate(pem_path.read_bytes()), loaded)


def base(
    subject: x509.Name, issuer: x509.Name, public_key: object, life: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)  # type: ignore[arg-type]  # any key type that a CSR may hold
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + life)
    )


def sign_node(authority: Authority, csr_pem: str, node_id: UUID, purpose: str) -> x509.Certificate:
    """The CSR's subject is ignored: the name is the node's id. Raises ValueError on a CSR that is none."""
    csr = x509.load_pem_x509_csr(csr_pem.encode())
    if not csr.is_signature_valid:
        raise ValueError("the CSR's signature is wrong")
    usage = (
        ExtendedKeyUsageOID.CLIENT_AUTH if purpose == "agent" else ExtendedKeyUsageOID.SERVER_AUTH
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(node_id))])
    return (
        base(name, authority.certificate.subject, csr.public_key(), NODE_LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(str(node_id))]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .sign(authority.key, hashes.SHA256())
    )


def server_certificate(authority: Authority, folder: Path, names: list[str]) -> tuple[Path, Path]:
    """Certificate and key of the web and fleet servers; made anew when a name is missing or its end is near."""
    pem_path, key_path = folder / "server.pem", folder / "server.key"
    if pem_path.exists() and key_path.exists():
        held = x509.load_pem_x509_certificate(pem_path.read_bytes())
        san = held.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        have = {str(n.value) for n in san}
        if set(names) <= have and held.not_valid_after_utc - datetime.now(UTC) > SERVER_LIFE / 3:
            return pem_path, key_path
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives: list[x509.GeneralName] = []
    for n in dict.fromkeys(names):
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(n)))
        except ValueError:
            alternatives.append(x509.DNSName(n))
    certificate = (
        base(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Busbar appliance")]),
            authority.certificate.subject,
            key.public_key(),
            SERVER_LIFE,
        )
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    write_private(key_path, private_pem(key))
    pem_path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM) + authority.pem.encode()
    )
    return pem_path, key_path
