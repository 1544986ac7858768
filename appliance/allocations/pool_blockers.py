"""Objects that prevent the deletion of a pool."""

from __future__ import annotations

from django.db.models import Q

from appliance.allocations.models import Allocation, AllocationState
from appliance.inventory.models import NodeState
from appliance.pools.blockers import register
from appliance.pools.models import Pool

MAX_BLOCKERS = 100


def gpu_blockers(pool: Pool) -> list[dict[str, object]]:
    gpus = pool.gpus.exclude(node__state=NodeState.REMOVED).select_related("node")
    return [
        {"kind": "gpu", "id": str(g.pk), "name": f"GPU {g.index} of {g.node.name}"}
        for g in gpus[:MAX_BLOCKERS]
    ]


def allocation_blockers(pool: Pool) -> list[dict[str, object]]:
    """Return the allocations that use or request the pool."""
    allocations = Allocation.objects.filter(Q(pool=pool) | Q(placed_pool=pool)).exclude(
        state__in=[AllocationState.RELEASED, AllocationState.FAILED]
    )
    return [
        {"kind": "allocation", "id": str(a.pk), "name": a.name, "state": a.state}
        for a in allocations[:MAX_BLOCKERS]
    ]


register(gpu_blockers)
register(allocation_blockers)
