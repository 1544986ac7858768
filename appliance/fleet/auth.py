"""Identity of agents: certificates, their generations, and evidence of copied identities.

A node has one certificate in use. Its first use supersedes all others of the same and of earlier
generations. The node then has no superseded certificate any more, so the use of one proves a copy
of its files and locks the node.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NoReturn
from uuid import UUID

from django.utils import timezone

from appliance.api.errors import ApplianceError, Code
from appliance.db.prepared import Select
from appliance.db.writer import write_transaction
from appliance.fleet.certificate_adoption import adopt_certificate
from appliance.fleet.models import NodeCertificate
from appliance.inventory.locks import lock_node, refuse_locked
from appliance.inventory.models import NodeState

REORDERING = timedelta(seconds=10)
"""A connection that began before a renewal may arrive this long after the renewed one."""
VALID_SERIALS = Select(
    lambda now: (
        NodeCertificate.objects.in_force()
        .filter(not_after__gt=now, node__locked_at=None)
        .exclude(node__state=NodeState.REMOVED)
        .values_list("serial")
    )
)
UNKNOWN = "The certificate is not one of a node that is enrolled here; enrol the machine again."


def admit_agent(serial: str, pem: str = "") -> UUID:
    """Return the id of the node with this certificate, and confirm the certificate.

    `pem` is the certificate itself, whose issuer TLS has checked. Raises ApplianceError
    UNAUTHENTICATED or NODE_LOCKED.
    """
    certificate = find_certificate(serial, pem)
    if certificate.not_after <= timezone.now():
        raise ApplianceError(Code.UNAUTHENTICATED, "The certificate has expired; renew it.")
    if certificate.confirmed_at is None:
        confirm(certificate)
    node_id: UUID = certificate.node_id
    return node_id


def valid_serials() -> frozenset[str]:
    """Return the serials of the certificates with which agents may be connected now."""
    return frozenset(serial for (serial,) in VALID_SERIALS.rows(now=timezone.now()))


def find_certificate(serial: str, pem: str) -> NodeCertificate:
    """Return the agent certificate in force with this serial; its validity is not checked.

    A superseded certificate locks its node. One that was issued after the backup from which the
    appliance was restored is adopted. Raises ApplianceError UNAUTHENTICATED or NODE_LOCKED.
    """
    if pem and not NodeCertificate.objects.filter(serial=serial).exists():
        adopt_certificate(pem)
    row = (
        NodeCertificate.objects.select_related("node")
        .filter(serial=serial, purpose="agent", revoked_at=None)
        .first()
    )
    if row is None or row.node.state == NodeState.REMOVED:
        raise ApplianceError(Code.UNAUTHENTICATED, UNKNOWN)
    refuse_locked(row.node)
    if row.superseded_at is not None:
        refuse_superseded(row, row.superseded_at)
    return row


def refuse_superseded(row: NodeCertificate, superseded_at: datetime) -> NoReturn:
    """Lock the node, unless the certificate was superseded just now, and raise ApplianceError."""
    if timezone.now() - superseded_at > REORDERING:
        lock_node(node_id=row.node_id, reason=superseded_reason(row))
        row.node.refresh_from_db()
        refuse_locked(row.node)
    raise ApplianceError(Code.UNAUTHENTICATED, "The certificate has been replaced by a newer one.")


def superseded_reason(row: NodeCertificate) -> str:
    return (
        f"its certificate of generation {row.generation} was used after it had been replaced,"
        " so a copy of its files exists."
    )


@write_transaction
def confirm(certificate: NodeCertificate) -> None:
    """Record the first use of a certificate, and supersede the others up to its generation."""
    now = timezone.now()
    NodeCertificate.objects.filter(pk=certificate.pk).update(confirmed_at=now)
    NodeCertificate.objects.in_force().filter(
        node_id=certificate.node_id, generation__lte=certificate.generation
    ).exclude(pk=certificate.pk).update(superseded_at=now)
