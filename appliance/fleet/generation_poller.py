"""Polling of generations and certificates: two queries for all nodes, not two per stream."""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone

from appliance.db.prepared import Select
from appliance.fleet.models import NodeCertificate
from appliance.inventory.models import Node, NodeState

GENERATIONS = Select(lambda: Node.objects.present().values_list("pk", "generation"))
VALID_SERIALS = Select(
    lambda now: (
        NodeCertificate.objects.in_force()
        .filter(not_after__gt=now, node__locked_at=None)
        .exclude(node__state=NodeState.REMOVED)
        .values_list("serial")
    )
)


class GenerationPoller:
    def __init__(self) -> None:
        self.generations: dict[UUID, int] = {}
        self.serials: frozenset[str] = frozenset()
        """Serials of valid certificates."""

    def poll(self) -> set[UUID]:
        """Return the nodes whose generation changed since the last call. Reads the database."""
        generations = {node_id: generation for node_id, generation in GENERATIONS.rows()}
        changed = {
            n for n, generation in generations.items() if self.generations.get(n) != generation
        }
        self.generations = generations
        self.serials = frozenset(serial for (serial,) in VALID_SERIALS.rows(now=timezone.now()))
        return changed
