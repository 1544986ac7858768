"""One look a second at all nodes' generations and certificates, instead of one a stream. Blocks; off the loop."""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone

from appliance.fleet.models import NodeCertificate
from appliance.inventory.models import Node, NodeState
from appliance.prepared import Select

GENERATIONS = Select(lambda: Node.objects.present().values_list("pk", "generation"))
GOOD_SERIALS = Select(
    lambda now: (
        NodeCertificate.objects.filter(revoked_at=None, not_after__gt=now, purpose="agent")
        .exclude(node__state=NodeState.REMOVED)
        .values_list("serial")
    )
)


class Rollcall:
    def __init__(self) -> None:
        self.generations: dict[UUID, int] = {}
        self.serials: frozenset[str] = frozenset()
        """Of the certificates that are good now."""

    def take(self) -> set[UUID]:
        """Reads the database; the nodes whose generation changed since the last time."""
        fresh = {node_id: generation for node_id, generation in GENERATIONS.rows()}
        changed = {n for n, generation in fresh.items() if self.generations.get(n) != generation}
        self.generations = fresh
        self.serials = frozenset(serial for (serial,) in GOOD_SERIALS.rows(now=timezone.now()))
        return changed
