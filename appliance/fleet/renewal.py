"""Renewal of node certificates with a request that the current key signs.

The client certificate of a TLS connection cannot prove the identity, because TLS rejects it once it
has expired.
"""

from __future__ import annotations

import base64
import binascii
from datetime import timedelta
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.db.models import Count, Max
from django.utils import timezone

from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction
from appliance.fleet import auth
from appliance.fleet.authorities import authorities
from appliance.fleet.certificates import is_issued_by
from appliance.fleet.enrolment import issue_certificates
from appliance.fleet.models import NodeCertificate
from appliance.runtime import live_settings
from appliance.runtime.setting_sections import NodeSettings
from nodes.protocol.renewal_content import signed_content

GRACE = timedelta(days=30)
"""An expired certificate can be renewed for this time."""
MAX_RENEWALS, RENEWAL_PERIODS = 20, 24
"""Renewals of one node in each of so many parts of the lifetime: 20 an hour."""
MIN_ATTEMPT_SECONDS, MAX_ATTEMPT_SECONDS = 4, 3600
"""Time between renewals of one certificate. It doubles with each one that was never used."""


def renew_certificates(
    *, certificate: str, agent_csr: str, launcher_csr: str, signature: str
) -> dict[str, Any]:
    """Issue the next generation of a node's certificates.

    `signature`, in base64, proves the possession of the current key. Raises ApplianceError
    UNAUTHENTICATED, or NODE_LOCKED if the certificate has been superseded.
    """
    presented = parse_certificate(certificate)
    verify_signature(presented, signature, signed_content(certificate, agent_csr, launcher_csr))
    current = auth.find_certificate(format(presented.serial_number, "x"), certificate)
    if current.not_after + GRACE <= timezone.now():
        raise ApplianceError(
            Code.UNAUTHENTICATED,
            f"The certificate expired on {current.not_after:%Y-%m-%d}, more than {GRACE.days} days"
            " ago; enrol the machine again.",
        )
    return issue_next_generation(current, agent_csr, launcher_csr)


def parse_certificate(pem: str) -> x509.Certificate:
    """Return a certificate that the appliance issued. Raises ApplianceError UNAUTHENTICATED."""
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
    except (ValueError, x509.InvalidVersion):
        raise ApplianceError(Code.INVALID, "The certificate cannot be read.") from None
    if not any(is_issued_by(authority, certificate) for authority in authorities()):
        raise ApplianceError(Code.UNAUTHENTICATED, auth.UNKNOWN)
    return certificate


def verify_signature(certificate: x509.Certificate, signature: str, content: bytes) -> None:
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    try:
        key.verify(base64.b64decode(signature), content, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, binascii.Error, ValueError):
        raise ApplianceError(
            Code.UNAUTHENTICATED, "The signature does not match the key of the certificate."
        ) from None


@write_transaction
def issue_next_generation(
    current: NodeCertificate, agent_csr: str, launcher_csr: str
) -> dict[str, Any]:
    """Issue certificates.

    Raises ApplianceError TOO_MANY_ATTEMPTS after attempts that were lost, or after many renewals.
    """
    if current.confirmed_at is None:
        auth.confirm(current)
    limit_attempts(current)
    limit_renewals(current)
    return issue_certificates(current.node, agent_csr, launcher_csr, current.generation + 1)


def limit_renewals(current: NodeCertificate) -> None:
    """Raise ApplianceError TOO_MANY_ATTEMPTS if the node has many new certificates.

    A node that renews each new certificate at once would otherwise fill the database.
    """
    seconds = live_settings.current(NodeSettings).certificate_seconds / RENEWAL_PERIODS
    recent = NodeCertificate.objects.filter(
        node_id=current.node_id,
        purpose="agent",
        created_at__gt=timezone.now() - timedelta(seconds=seconds),
    )
    if recent.count() >= MAX_RENEWALS:
        raise ApplianceError(
            Code.TOO_MANY_ATTEMPTS,
            f"The certificates were renewed {MAX_RENEWALS} times within {seconds:.0f} s.",
        )


def limit_attempts(current: NodeCertificate) -> None:
    """Raise ApplianceError TOO_MANY_ATTEMPTS if the same certificate was renewed recently."""
    attempts = NodeCertificate.objects.in_force().filter(
        node_id=current.node_id, generation__gt=current.generation
    )
    found = attempts.aggregate(count=Count("pk"), newest=Max("created_at"))
    if not found["count"]:
        return
    pause = min(MIN_ATTEMPT_SECONDS * 2 ** (found["count"] - 1), MAX_ATTEMPT_SECONDS)
    if timezone.now() < found["newest"] + timedelta(seconds=pause):
        raise ApplianceError(
            Code.TOO_MANY_ATTEMPTS, f"The certificates were renewed less than {pause} s ago."
        )
