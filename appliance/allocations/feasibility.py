"""Feasibility: a request could start if nothing else ran. Pure functions.

The registered GPUs count, also those of nodes that are unreachable or in maintenance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from uuid import UUID

from appliance.allocations.limits import check_limits
from appliance.allocations.placement import (
    ComputeMode,
    GpuCapacity,
    Placement,
    Request,
    Share,
    mismatch,
    share_of,
)
from appliance.allocations.snapshot import (
    ActiveAllocations,
    PendingAllocation,
    PoolCapacity,
    Reservation,
    SchedulerSnapshot,
)


def reason_against(snapshot: SchedulerSnapshot, pending: PendingAllocation) -> str:
    """Return why the request can never start with these GPUs and limits, or an empty string.

    What could start in a pool that cannot be read is unknown.
    """
    pools = [snapshot.pools[p] for p in pending.pools if p in snapshot.pools]
    if any(pool.unreadable for pool in pools):
        return ""
    found = [p for pool in pools if (p := place_on_empty(pool.gpus, pending.request))]
    if not found:
        return explain(pools, pending.request)
    idle = replace(snapshot, active=ActiveAllocations())
    waits = [check_limits(idle, pending, placement) for placement in found]
    return "" if None in waits else next(wait.reason for wait in waits if wait)


def place_on_empty(gpus: Sequence[GpuCapacity], request: Request) -> Placement | None:
    """Return a placement on GPUs as if they were usable and empty, or None if too few match.

    Stops at the first one: a pool can have 10,000 GPUs. For a request in bytes, larger GPUs come
    first, because they need the smallest share of a limit.
    """
    in_bytes = not request.percent and request.compute_mode is not ComputeMode.EXCLUSIVE
    if in_bytes:
        gpus = sorted(gpus, key=attrgetter("memory_bytes"), reverse=True)
    groups: dict[UUID | None, list[Share]] = {}
    for gpu in gpus:
        if mismatch(gpu, request):
            continue
        group = groups.setdefault(gpu.node_id if request.same_node else None, [])
        group.append(share_of(gpu, request))
        if len(group) == request.gpu_count:
            return Placement(tuple(group))
    return None


def unused_part(snapshot: SchedulerSnapshot, r: Reservation, request: Request) -> Request:
    """Return what is left of the request of a reservation, with as many GPUs as match it.

    A GPU that no longer matches, or has left the pool, must not end the reservation of the others.
    """
    active = snapshot.active.values()
    own = [s for a in active if a.reservation_id == r.id for s in a.shares]
    unused = max(0, request.gpu_count - len(own))
    matching = (
        g
        for g in snapshot.pools[r.pool_id].gpus
        if not mismatch(g, request) and fits_beside(own, g, share_of(g, request))
    )
    return replace(request, gpu_count=sum(1 for _ in islice(matching, unused)))


def fits_beside(shares: Sequence[Share], gpu: GpuCapacity, added: Share) -> bool:
    here = [s for s in shares if s.gpu_id == gpu.gpu_id] + [added]
    memory_bytes = sum(s.memory_bytes for s in here)
    percent = sum(s.compute_percent for s in here)
    return percent <= 100 and memory_bytes <= gpu.memory_bytes


def explain(pools: Sequence[PoolCapacity], request: Request) -> str:
    """Return what the registered GPUs of the pools lack for the request."""
    found = ". Pool ".join(f"{pool.name} has {matching(pool.gpus, request)}" for pool in pools)
    from_one = (
        " A request takes all of its GPUs from one pool."
        if request.gpu_count > 1 and len(pools) > 1
        else ""
    )
    node = " on one node" if request.same_node else ""
    return f"Requested {request}{node}, but pool {found}.{from_one}"


def matching(gpus: Sequence[GpuCapacity], request: Request) -> str:
    """Return how many of the GPUs match, and why the others do not."""
    mismatches = Counter(why for g in gpus if (why := mismatch(g, request)))
    others = "; ".join(f"{n} {why}" for why, n in mismatches.most_common(3))
    return (
        f"{len(gpus) - mismatches.total()} matching of {len(gpus)} registered GPUs"
        f"{': ' + others if others else ''}"
    )
