"""Certificate authority of the appliance.

Its private key is a file with mode 0600 beside the database, never inside it.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from appliance.runtime.private_file import write_private

SERVER_LIFETIME = timedelta(days=90)
CA_LIFETIME = timedelta(days=3650)
CERTIFICATE_BEGIN = b"-----BEGIN CERTIFICATE-----"
BACKDATE = timedelta(minutes=5)
"""Certificates are valid this long before their creation, for nodes with a late clock."""


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


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_authority(folder: Path, slot: str = "") -> Authority:
    """Return the CA of this slot. Creates the one of slot "" at first use.

    The file holds key and certificate.
    """
    path = folder / f"ca{slot}.key"
    if slot == "" and not path.exists():
        write_bundle(folder, [create_authority(folder)])
    content = path.read_bytes()
    if CERTIFICATE_BEGIN not in content:  # written by an earlier release
        content += (folder / "ca.pem").read_bytes()
        write_private(path, content)
    loaded = serialization.load_pem_private_key(content, None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    return Authority(x509.load_pem_x509_certificate(content), loaded)


def create_authority(folder: Path, slot: str = "") -> Authority:
    """Create key and certificate of a CA. Its name contains the slot.

    TLS libraries find the CA of a certificate by its name, so each one has a different name.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Busbar CA{slot}")])
    builder = new_certificate(name, key, name, key.public_key(), CA_LIFETIME)
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    authority = Authority(certificate, key)
    write_private(folder / f"ca{slot}.key", private_pem(key) + authority.pem.encode())
    return authority


def bundle_of(authorities: Sequence[Authority]) -> str:
    """Return the certificates in PEM format. The first CA issues, and all are trusted."""
    return "".join(a.pem for a in authorities)


def write_bundle(folder: Path, authorities: Sequence[Authority]) -> None:
    """Write the certificates of the trusted CAs to `ca.pem`, unless they are there."""
    path, content = folder / "ca.pem", bundle_of(authorities).encode()
    if not path.exists() or path.read_bytes() != content:
        write_private(path, content)


def new_certificate(
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    """Return a builder with names, key, identifiers of both keys, a random number and validity.

    Python 3.13 and later refuse certificates without the identifiers (RFC 5280, 4.2.1.1 and 2).
    """
    now = datetime.now(UTC)
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - min(BACKDATE, lifetime))
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(issuer_id, critical=False)
    )


def new_leaf(
    authority: Authority,
    name: str,
    key: ec.EllipticCurvePublicKey,
    lifetime: timedelta,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> x509.CertificateBuilder:
    """Return a builder of a certificate that the CA issues, still without alternative names."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = new_certificate(authority.certificate.subject, authority.key, subject, key, lifetime)
    return builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)


def sign_node_certificate(
    authority: Authority,
    csr_pem: str,
    node_id: UUID,
    purpose: str,
    lifetime: timedelta = timedelta(days=1),
) -> x509.Certificate:
    """Sign the CSR of a node. The subject of the CSR is replaced by the node's id.

    Raises ValueError for a malformed CSR, a wrong signature or an unsupported kind of key.
    """
    csr = x509.load_pem_x509_csr(csr_pem.encode())
    key = csr.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("the key of the CSR is not an elliptic-curve key")
    if not csr.is_signature_valid:
        raise ValueError("the signature of the CSR is invalid")
    usage = (
        ExtendedKeyUsageOID.CLIENT_AUTH if purpose == "agent" else ExtendedKeyUsageOID.SERVER_AUTH
    )
    return (
        new_leaf(authority, str(node_id), key, lifetime, usage)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(str(node_id))]), critical=False)
        .sign(authority.key, hashes.SHA256())
    )


def is_issued_by(authority: Authority, certificate: x509.Certificate) -> bool:
    """Return whether the CA signed the certificate. Does not check its validity period."""
    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def server_certificate(
    authority: Authority, folder: Path, names: list[str], lifetime: timedelta = SERVER_LIFETIME
) -> tuple[Path, Path]:
    """Return the files of certificate and key of the HTTPS and fleet servers.

    Issues a new certificate if less than a third of its lifetime is left, a name or the identifier
    of the CA's key is missing, the CA is another one, or the files do not belong together.
    """
    pem_path, key_path = folder / "server.pem", folder / "server.key"
    if is_usable(pem_path, key_path, authority, names, lifetime):
        return pem_path, key_path
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        new_leaf(authority, "Busbar appliance", key.public_key(), lifetime)
        .add_extension(alternative_names(names), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    write_private(key_path, private_pem(key))
    chain = certificate.public_bytes(serialization.Encoding.PEM) + authority.pem.encode()
    write_private(pem_path, chain)
    return pem_path, key_path


def is_usable(
    pem: Path, key: Path, authority: Authority, names: list[str], lifetime: timedelta
) -> bool:
    """Return whether the server's certificate needs no renewal."""
    if not (pem.exists() and key.exists() and is_pair(pem.read_bytes(), key.read_bytes())):
        return False
    current = x509.load_pem_x509_certificate(pem.read_bytes())
    san = current.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return (
        any(isinstance(e.value, x509.AuthorityKeyIdentifier) for e in current.extensions)
        and set(names) <= {str(n.value) for n in san}
        and current.not_valid_after_utc - datetime.now(UTC) > lifetime / 3
        and is_issued_by(authority, current)
    )


def is_pair(pem: bytes, key: bytes) -> bool:
    """Return whether a certificate in PEM format has this private key."""
    loaded = serialization.load_pem_private_key(key, None)
    certificate = x509.load_pem_x509_certificate(pem)
    return loaded.public_key() == certificate.public_key()


def alternative_names(names: list[str]) -> x509.SubjectAlternativeName:
    """Return the extension for host names and IP addresses, without duplicates."""
    alternatives: list[x509.GeneralName] = []
    for n in dict.fromkeys(names):
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(n)))
        except ValueError:
            alternatives.append(x509.DNSName(n))
    return x509.SubjectAlternativeName(alternatives)
