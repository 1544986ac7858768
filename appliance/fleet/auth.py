"""Who speaks on a fleet stream: the peer's certificate, looked up by serial; and which method wants what."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.utils import timezone

from appliance.fleet.models import NodeCertificate
from appliance.inventory.models import NodeState

POLICY: Mapping[str, str] = {
    "/busbar.fleet.v1.Fleet/Connect": "agent",
    "/busbar.fleet.v1.Fleet/RenewCertificates": "agent",
}
"""Method to the purpose of the certificate it wants. A method that is not here is denied."""


def node_of(serial: str, method: str) -> UUID | None:
    """The node behind the certificate, or None. Reads the database."""
    purpose = POLICY.get(method)
    if purpose is None or not serial:
        return None
    row = (
        NodeCertificate.objects.select_related("node")
        .filter(serial=serial, purpose=purpose, revoked_at=None, not_after__gt=timezone.now())
        .first()
    )
    if row is None or row.node.state == NodeState.REMOVED:
        return None
    node_id: UUID = row.node_id
    return node_id
