"""Generations: versions of the desired state of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import F

from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.prepared import Select, Update
from appliance.inventory.models import Node

INCREMENT_GENERATIONS = Update(
    lambda ids: (Node.objects.filter(pk__in=ids), {"generation": F("generation") + 1}),
    returning=("id", "generation"),
)
SELECT_GENERATIONS = Select(
    lambda ids: Node.objects.filter(pk__in=ids).values_list("pk", "generation")
)
SELECT_ALL_GENERATIONS = Select(lambda: Node.objects.present().values_list("pk", "generation"))


def all_generations() -> dict[UUID, int]:
    """Return the generation of each node that is not removed."""
    return {node_id: generation for node_id, generation in SELECT_ALL_GENERATIONS.rows()}


def current_generation(node_id: UUID) -> int:
    """Return the generation of a node; raises Node.DoesNotExist."""
    for _, generation in SELECT_GENERATIONS.rows(ids=[node_id]):
        return int(generation)
    raise Node.DoesNotExist


def increment_generations(node_ids: Iterable[UUID]) -> dict[UUID, int]:
    """Increment the generation of nodes and return the new ones.

    Must be called inside the transaction that changes the desired state.
    """
    ids = set(node_ids)
    change_log.record_all(Topic.DESIRED_STATE, ids)
    if not ids:
        return {}
    return {
        node_id: generation for node_id, generation in INCREMENT_GENERATIONS.rows(ids=list(ids))
    }
