"""Which GPUs satisfy a request. Pure: the same input gives the same answer, with reasons."""

from __future__ import annotations

import enum
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from uuid import UUID

GRANULARITY_BYTES = 2 << 20
"""Of device memory; partitions are rounded to it."""
WHOLE_PERCENT = 100


class Policy(enum.StrEnum):
    """How a pool chooses. A pool has several, in order: the next decides where the one before sees no difference."""

    PACK = "pack"
    """The fullest GPU and node that fit, so that whole GPUs stay whole."""
    SPREAD = "spread"
    """The emptiest, so that neighbours are few."""
    MODEL_AFFINITY = "model_affinity"
    """GPUs of one model if possible, and the smallest that is large enough."""
    EXCLUSIVE = "exclusive"
    """A GPU with a partition on it gets no other."""


class ComputeMode(enum.StrEnum):
    SHARED = "shared"
    """Its percent under contention; more while the GPU is idle."""
    CAPPED = "capped"
    """Never more than its percent."""
    EXCLUSIVE = "exclusive"
    """The whole GPU."""


@dataclass(frozen=True, slots=True)
class GpuRoom:
    """A GPU and what is left of it."""

    gpu_id: UUID
    node_id: UUID
    memory_bytes: int
    free_percent: int
    free_memory_bytes: int
    usable: bool
    why_not: str = ""
    model: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the node, and over them those of the GPU."""
    driver_version: tuple[int, ...] = ()
    cuda_version: tuple[int, ...] = ()
    rank: int = field(init=False, compare=False, repr=False)
    """Its ids as one number."""
    used_percent: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "used_percent", WHOLE_PERCENT - self.free_percent)
        object.__setattr__(self, "rank", self.node_id.int << 128 | self.gpu_id.int)


PACK_KEY = attrgetter("free_percent", "rank")


class PackedRooms(list[GpuRoom]):
    """In the order in which packing prefers them. Only `put` and `drop` change it."""

    def put(self, room: GpuRoom) -> None:
        insort(self, room, key=PACK_KEY)

    def drop(self, room: GpuRoom) -> None:
        """One that was put."""
        del self[bisect_left(self, PACK_KEY(room), key=PACK_KEY)]

    def first_fit(self, request: Request) -> GpuRoom | None:
        """What `place` would choose for one GPU, without looking at all of them."""
        least = WHOLE_PERCENT if request.compute_mode is ComputeMode.EXCLUSIVE else request.percent
        for g in islice(self, bisect_left(self, (least, 0), key=PACK_KEY), None):
            if g.usable and not suits(g, request):
                percent, memory = size_on(g.memory_bytes, request)
                if g.free_percent >= percent and g.free_memory_bytes >= memory:
                    return g
        return None


@dataclass(frozen=True, slots=True)
class Request:
    gpu_count: int
    percent: int = 0
    """Of compute and, without `memory_bytes`, of memory. 0: in proportion to the memory."""
    memory_bytes: int = 0
    """Of each GPU; 0: in proportion to the percent."""
    compute_mode: ComputeMode = ComputeMode.SHARED
    same_node: bool = False
    model: str = ""
    """Part of the model's name, in any case."""
    labels: tuple[tuple[str, str], ...] = ()
    min_driver_version: tuple[int, ...] = ()
    min_cuda_version: tuple[int, ...] = ()

    def __str__(self) -> str:
        size = f"{self.memory_bytes >> 20} MiB" if self.memory_bytes else f"{self.percent} %"
        if self.compute_mode is ComputeMode.EXCLUSIVE:
            size = "whole"
        return f"{self.gpu_count} × {size}"


@dataclass(frozen=True, slots=True)
class Share:
    gpu_id: UUID
    node_id: UUID
    memory_bytes: int
    compute_percent: int


@dataclass(frozen=True, slots=True)
class Placed:
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    reason: str


def share_bytes(memory_bytes: int, percent: int) -> int:
    return memory_bytes * percent // WHOLE_PERCENT // GRANULARITY_BYTES * GRANULARITY_BYTES


def size_on(memory_bytes: int, request: Request) -> tuple[int, int]:
    """Percent of compute and bytes that the request takes of a GPU with so much memory; more than there is where it is too small."""
    if request.compute_mode is ComputeMode.EXCLUSIVE:
        return WHOLE_PERCENT, share_bytes(memory_bytes, WHOLE_PERCENT)
    if not request.memory_bytes:
        return request.percent, share_bytes(memory_bytes, request.percent)
    wanted = -(-request.memory_bytes // GRANULARITY_BYTES) * GRANULARITY_BYTES
    return request.percent or max(1, -(-wanted * WHOLE_PERCENT // memory_bytes)), wanted


def share_on(gpu: GpuRoom, request: Request) -> Share:
    percent, memory = size_on(gpu.memory_bytes, request)
    return Share(gpu.gpu_id, gpu.node_id, memory, percent)


def suits(gpu: GpuRoom, request: Request) -> str:
    """An empty string, or what the request asks of a GPU that this one is not: the same whether it is free or not."""
    if request.model and request.model.lower() not in gpu.model.lower():
        return f"are no {request.model}"
    if any(gpu.labels.get(key) != value for key, value in request.labels):
        return "lack the labels " + ", ".join(f"{k}={v}" for k, v in sorted(request.labels))
    if gpu.driver_version < request.min_driver_version:
        return f"have a driver older than {dotted(request.min_driver_version)}"
    if gpu.cuda_version < request.min_cuda_version:
        return f"have a driver for CUDA older than {dotted(request.min_cuda_version)}"
    percent, memory = size_on(gpu.memory_bytes, request)
    if percent > WHOLE_PERCENT or memory > gpu.memory_bytes:
        return f"have less than {request.memory_bytes >> 20} MiB"
    return ""


def dotted(version: Iterable[int]) -> str:
    return ".".join(map(str, version))


def candidates(gpus: Sequence[GpuRoom], request: Request, exclusive: bool) -> list[GpuRoom]:
    """What fits now. Ten thousand GPUs come through here, so a size is worked out once for each size of memory."""
    picky = bool(
        request.model or request.labels or request.min_driver_version or request.min_cuda_version
    )
    least = WHOLE_PERCENT if exclusive else 0
    sizes = {
        memory: size_on(memory, request) for memory in set(map(attrgetter("memory_bytes"), gpus))
    }
    percents = {memory: max(percent, least) for memory, (percent, _) in sizes.items()}
    fitting = [
        g
        for g in gpus
        if g.free_percent >= percents[m := g.memory_bytes]
        and g.usable
        and g.free_memory_bytes >= sizes[m][1]
    ]
    return [g for g in fitting if not suits(g, request)] if picky else fitting


Key = tuple[object, ...]
ORDER: Mapping[Policy, tuple[str, ...]] = {
    Policy.PACK: ("free_percent",),
    Policy.SPREAD: ("used_percent",),
    Policy.MODEL_AFFINITY: ("memory_bytes", "model"),
}


def order_of(policies: Sequence[Policy]) -> Callable[[GpuRoom], Key]:
    """Smaller is better; ids break ties, so that the answer does not depend on the order of the rows."""
    parts = [name for p in policies for name in ORDER.get(p, ())]
    return attrgetter(*parts, "rank")


DEFAULT_POLICIES = (Policy.PACK,)


def place(
    gpus: Sequence[GpuRoom], request: Request, policies: Sequence[Policy] = DEFAULT_POLICIES
) -> Placed | Waiting:
    """All of its GPUs or none, no GPU twice, on one node if possible, otherwise on as few as possible."""
    if (
        request.gpu_count == 1
        and isinstance(gpus, PackedRooms)
        and tuple(policies) == DEFAULT_POLICIES
        and (g := gpus.first_fit(request))
    ):
        return Placed((share_on(g, request),))
    fitting = candidates(gpus, request, Policy.EXCLUSIVE in policies)
    if len(fitting) >= request.gpu_count:
        for group in groups(fitting, policies):
            if chosen := choose(group, request, policies):
                return Placed(tuple(share_on(g, request) for g in chosen))
    return Waiting(explain(gpus, request, fitting, policies))


def groups(fitting: Sequence[GpuRoom], policies: Sequence[Policy]) -> Iterable[Sequence[GpuRoom]]:
    """With model affinity each model alone, the smallest first; then all together."""
    if Policy.MODEL_AFFINITY in policies:
        models: dict[tuple[int, str], list[GpuRoom]] = {}
        for g in fitting:
            models.setdefault((g.memory_bytes, g.model), []).append(g)
        yield from (models[m] for m in sorted(models))
        if len(models) == 1:
            return
    yield fitting


def choose(
    fitting: Sequence[GpuRoom], request: Request, policies: Sequence[Policy]
) -> list[GpuRoom]:
    """An empty list when it cannot be done with these."""
    count, key = request.gpu_count, order_of(policies)
    if len(fitting) < count:
        return []
    if count == 1:
        return [min(fitting, key=key)]
    nodes: dict[UUID, list[GpuRoom]] = {}
    for g in fitting:
        nodes.setdefault(g.node_id, []).append(g)
    sign = -1 if Policy.SPREAD in policies and Policy.PACK not in policies else 1
    free = {n: sign * sum(g.free_percent for g in here) for n, here in nodes.items()}
    enough = [n for n, here in nodes.items() if len(here) >= count]
    if enough:
        best = min(enough, key=lambda n: (free[n], n.int))
        return sorted(nodes[best], key=key)[:count]
    if request.same_node:
        return []
    chosen: list[GpuRoom] = []
    for n in sorted(nodes, key=lambda n: (-len(nodes[n]), free[n], n.int)):
        chosen += sorted(nodes[n], key=key)[: count - len(chosen)]
        if len(chosen) == count:
            break
    return chosen


def explain(
    gpus: Sequence[GpuRoom],
    request: Request,
    fitting: Sequence[GpuRoom],
    policies: Sequence[Policy] = DEFAULT_POLICIES,
) -> str:
    """One sentence: what was asked for, and what stands in its way."""
    asked = f"{request} was asked for"
    if not gpus:
        return f"{asked}, and the pool has no GPU. Add a node."
    if len(fitting) >= request.gpu_count:
        together = f"no node has so many free at once, all nodes together have {len(fitting)}"
        return f"{asked} on one node; {together}. It starts when allocations end, or at once on several nodes."
    unfit = Counter(why for g in gpus if (why := suits(g, request)))
    suiting = [g for g in gpus if not suits(g, request)]
    if unfit and len(suiting) < request.gpu_count:
        others = "; ".join(f"{n} {why}" for why, n in unfit.most_common(3))
        return (
            f"{asked}, and {len(suiting)} of the pool's {len(gpus)} GPUs can ever do it: {others}."
        )
    unusable = Counter(g.why_not for g in suiting if not g.usable)
    if len(suiting) - unusable.total() < request.gpu_count:
        why = f" ({unusable.most_common(1)[0][0]})" if unusable else ""
        return f"{asked}, and the pool has {len(suiting) - unusable.total()} usable GPUs{why}."
    most = max(g.free_percent for g in suiting if g.usable)
    shared = (
        " The pool is exclusive: a GPU with a partition on it gets no other."
        if Policy.EXCLUSIVE in policies
        else ""
    )
    return f"{asked}; {len(fitting)} GPUs have that much free, the most free on one GPU is {most} %.{shared} It starts when an allocation ends."
