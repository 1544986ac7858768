"""Objects that prevent the deletion of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from appliance.accounts.dependents import Blockers, register_blockers
from appliance.allocations.models import Allocation, AllocationState
from appliance.inventory.models import Gpu, NodeState
from appliance.pools.models import Pool

MAX_BLOCKERS = 100
ENDED = (AllocationState.RELEASED, AllocationState.FAILED)


def gpu_blockers(pools: Sequence[Pool]) -> dict[UUID, Blockers]:
    """Return the first MAX_BLOCKERS GPUs of each pool."""
    rows = Gpu.objects.filter(pool__in=pools).exclude(node__state=NodeState.REMOVED)
    numbered = rows.annotate(
        number=Window(RowNumber(), partition_by=F("pool_id"), order_by=F("pk").asc())
    )
    found: dict[UUID, Blockers] = {}
    for gpu in numbered.filter(number__lte=MAX_BLOCKERS).select_related("node"):
        blocker: dict[str, object] = {
            "kind": "gpu",
            "id": str(gpu.pk),
            "name": f"GPU {gpu.index} of {gpu.node.name}",
        }
        if gpu.pool_id is not None:
            found.setdefault(gpu.pool_id, []).append(blocker)
    return found


def allocation_blockers(pools: Sequence[Pool]) -> dict[UUID, Blockers]:
    """Return the first MAX_BLOCKERS allocations that request or use each pool."""
    found: dict[UUID, Blockers] = {}
    for column in ("pool_id", "placed_pool_id"):
        rows = Allocation.objects.filter(**{f"{column}__in": [pool.pk for pool in pools]})
        numbered = rows.exclude(state__in=ENDED).annotate(
            number=Window(RowNumber(), partition_by=F(column), order_by=F("pk").asc())
        )
        first = numbered.filter(number__lte=MAX_BLOCKERS)
        for pool_id, pk, name, state in first.values_list(column, "pk", "name", "state"):
            blocker: dict[str, object] = {
                "kind": "allocation",
                "id": str(pk),
                "name": name,
                "state": state,
            }
            blockers = found.setdefault(pool_id, [])
            if blocker not in blockers:
                blockers.append(blocker)
    return found


register_blockers(Pool, gpu_blockers)
register_blockers(Pool, allocation_blockers)
