"""Placement of one request on the GPUs of one pool.

Pure functions: equal input gives an equal result, independent of the order of the rows.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from uuid import UUID

from appliance.pools.partition_memory import GRANULARITY_BYTES, lack_of_context_room, share_bytes

WHOLE_PERCENT = 100


class Policy(enum.StrEnum):
    """Placement policy of a pool.

    A pool has an ordered list of policies. A later policy breaks the ties of the earlier ones.
    """

    PACK = "pack"
    """Prefer the fullest GPU and node that fit, so that whole GPUs stay free."""
    SPREAD = "spread"
    """Prefer the emptiest GPU and node."""
    MODEL_AFFINITY = "model_affinity"
    """Use GPUs of one model if possible, and the smallest model that is large enough."""
    EXCLUSIVE = "exclusive"
    """Place at most one partition on each GPU."""


class ComputeMode(enum.StrEnum):
    SHARED = "shared"
    """In proportion to the percent of those that use the GPU."""
    CAPPED = "capped"
    """Never more than the requested percent."""
    GUARANTEED = "guaranteed"
    """At least the requested percent, served before others; more while the GPU is idle."""
    EXCLUSIVE = "exclusive"
    """The whole GPU."""


@dataclass(frozen=True, slots=True)
class GpuCapacity:
    """A GPU with its free compute and memory."""

    gpu_id: UUID
    node_id: UUID
    memory_bytes: int
    free_percent: int
    free_memory_bytes: int
    usable: bool
    unusable_reason: str = ""
    model: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the node, overridden by labels of the GPU."""
    driver_version: tuple[int, ...] = ()
    cuda_version: tuple[int, ...] = ()
    context_bytes: int = 0
    """Memory of a partition that a CUDA context takes. 0: nothing, or not known."""
    rank: int = field(init=False, compare=False, repr=False)
    """Node id and GPU id as one number; breaks ties."""
    used_percent: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "used_percent", WHOLE_PERCENT - self.free_percent)
        object.__setattr__(self, "rank", self.node_id.int << 128 | self.gpu_id.int)


PACK_KEY = attrgetter("free_percent", "rank")


class PackedGpus(list[GpuCapacity]):
    """GPUs of a pool in the order of the pack policy.

    Only `add` and `discard` may change the list.
    """

    def add(self, gpu: GpuCapacity) -> None:
        insort(self, gpu, key=PACK_KEY)

    def discard(self, gpu: GpuCapacity) -> None:
        """Remove a GPU that is in the list."""
        del self[bisect_left(self, PACK_KEY(gpu), key=PACK_KEY)]

    def first_fit(self, request: Request) -> GpuCapacity | None:
        """Return the GPU that `place` chooses for a request of one GPU.

        Skips GPUs with too little free compute by binary search.
        """
        least = WHOLE_PERCENT if request.compute_mode is ComputeMode.EXCLUSIVE else request.percent
        for g in islice(self, bisect_left(self, (least, 0), key=PACK_KEY), None):
            if g.usable and not mismatch(g, request):
                percent, memory = partition_size(g.memory_bytes, request)
                if g.free_percent >= percent and g.free_memory_bytes >= memory:
                    return g
        return None


@dataclass(frozen=True, slots=True)
class Request:
    gpu_count: int
    percent: int = 0
    """Share of compute and, without `memory_bytes`, of memory. 0: proportional to the memory."""
    memory_bytes: int = 0
    """Memory on each GPU. 0: proportional to the percent."""
    compute_mode: ComputeMode = ComputeMode.SHARED
    same_node: bool = False
    model: str = ""
    """Substring of the model name, case-insensitive."""
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
    """The part of one GPU that a placement uses."""

    gpu_id: UUID
    node_id: UUID
    memory_bytes: int
    compute_percent: int
    gpu_memory_bytes: int = 0
    """Memory of the GPU; 0 if it is not known."""

    @property
    def size_percent(self) -> int:
        """Size for quotas: the larger of the parts of compute and memory.

        Memory that one request takes is of no use to others, however little compute it takes.
        """
        if not self.gpu_memory_bytes:
            return self.compute_percent
        memory_percent = -(-self.memory_bytes * WHOLE_PERCENT // self.gpu_memory_bytes)
        return max(self.compute_percent, memory_percent)


@dataclass(frozen=True, slots=True)
class Placement:
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class NoPlacement:
    reason: str


def partition_size(memory_bytes: int, request: Request) -> tuple[int, int]:
    """Return the percent of compute and the bytes that the request needs on one GPU.

    `memory_bytes` is the memory of the GPU. The result exceeds the GPU if the GPU is too small.
    """
    if request.compute_mode is ComputeMode.EXCLUSIVE:
        return WHOLE_PERCENT, share_bytes(memory_bytes, WHOLE_PERCENT)
    if not request.memory_bytes:
        return request.percent, share_bytes(memory_bytes, request.percent)
    wanted = -(-request.memory_bytes // GRANULARITY_BYTES) * GRANULARITY_BYTES
    memory_bytes = max(memory_bytes, 1)  # rows of nodes that reported none before it was refused
    return request.percent or max(1, -(-wanted * WHOLE_PERCENT // memory_bytes)), wanted


def share_of(gpu: GpuCapacity, request: Request) -> Share:
    percent, memory = partition_size(gpu.memory_bytes, request)
    return Share(gpu.gpu_id, gpu.node_id, memory, percent, gpu.memory_bytes)


def mismatch(gpu: GpuCapacity, request: Request) -> str:
    """Return why the GPU can never satisfy the request, or an empty string.

    Ignores the current use of the GPU. The text continues a sentence whose subject is "N GPUs".
    """
    if request.model and request.model.lower() not in gpu.model.lower():
        return f"are not {request.model}"
    if any(gpu.labels.get(key) != value for key, value in request.labels):
        return "lack the labels " + ", ".join(f"{k}={v}" for k, v in sorted(request.labels))
    if gpu.driver_version < request.min_driver_version:
        return f"have a driver older than {format_version(request.min_driver_version)}"
    if gpu.cuda_version < request.min_cuda_version:
        return f"have a driver for CUDA older than {format_version(request.min_cuda_version)}"
    percent, memory = partition_size(gpu.memory_bytes, request)
    if percent > WHOLE_PERCENT or memory > gpu.memory_bytes:
        return f"have less than {request.memory_bytes >> 20} MiB"
    return lack_of_context_room(gpu.context_bytes, memory)


def format_version(version: Iterable[int]) -> str:
    return ".".join(map(str, version))


def fitting_gpus(
    gpus: Sequence[GpuCapacity], request: Request, exclusive: bool
) -> list[GpuCapacity]:
    """Return the GPUs on which one partition of the request fits now.

    Computes partition sizes once for each memory size: a pool can have 10,000 GPUs.
    """
    constrained = bool(
        request.model or request.labels or request.min_driver_version or request.min_cuda_version
    )
    least = WHOLE_PERCENT if exclusive else 0
    sizes = {
        memory: partition_size(memory, request)
        for memory in set(map(attrgetter("memory_bytes"), gpus))
    }
    percents = {memory: max(percent, least) for memory, (percent, _) in sizes.items()}
    fitting = [
        g
        for g in gpus
        if g.free_percent >= percents[m := g.memory_bytes]
        and g.usable
        and g.free_memory_bytes >= sizes[m][1]
        and (sizes[m][1] > g.context_bytes or not g.context_bytes)
    ]
    return [g for g in fitting if not mismatch(g, request)] if constrained else fitting


SortKey = tuple[object, ...]
SORT_FIELDS: Mapping[Policy, tuple[str, ...]] = {
    Policy.PACK: ("free_percent",),
    Policy.SPREAD: ("used_percent",),
    Policy.MODEL_AFFINITY: ("memory_bytes", "model"),
}


def preference_key(policies: Sequence[Policy]) -> Callable[[GpuCapacity], SortKey]:
    """Return a sort key for GPUs; smaller is better. Ids break ties."""
    fields = [name for p in policies for name in SORT_FIELDS.get(p, ())]
    return attrgetter(*fields, "rank")


DEFAULT_POLICIES = (Policy.PACK,)


def place(
    gpus: Sequence[GpuCapacity], request: Request, policies: Sequence[Policy] = DEFAULT_POLICIES
) -> Placement | NoPlacement:
    """Choose all GPUs of a request, or none.

    Each GPU is used once. All GPUs are on one node if possible, otherwise on as few as possible.
    """
    if (
        request.gpu_count == 1
        and isinstance(gpus, PackedGpus)
        and tuple(policies) == DEFAULT_POLICIES
        and (g := gpus.first_fit(request))
    ):
        return Placement((share_of(g, request),))
    fitting = fitting_gpus(gpus, request, Policy.EXCLUSIVE in policies)
    if len(fitting) >= request.gpu_count:
        for group in candidate_groups(fitting, policies):
            if chosen := choose_gpus(group, request, policies):
                return Placement(tuple(share_of(g, request) for g in chosen))
    return NoPlacement(explain(gpus, request, fitting, policies))


def candidate_groups(
    fitting: Sequence[GpuCapacity], policies: Sequence[Policy]
) -> Iterable[Sequence[GpuCapacity]]:
    """Yield the sets of GPUs to try in order.

    With model affinity, each model is tried alone, smallest memory first, then all together.
    """
    if Policy.MODEL_AFFINITY in policies:
        models: dict[tuple[int, str], list[GpuCapacity]] = {}
        for g in fitting:
            models.setdefault((g.memory_bytes, g.model), []).append(g)
        yield from (models[m] for m in sorted(models))
        if len(models) == 1:
            return
    yield fitting


def choose_gpus(
    fitting: Sequence[GpuCapacity], request: Request, policies: Sequence[Policy]
) -> list[GpuCapacity]:
    """Return the preferred GPUs for the request, or an empty list if they do not suffice."""
    count, key = request.gpu_count, preference_key(policies)
    if len(fitting) < count:
        return []
    if count == 1:
        return [min(fitting, key=key)]
    nodes: dict[UUID, list[GpuCapacity]] = {}
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
    chosen: list[GpuCapacity] = []
    for n in sorted(nodes, key=lambda n: (-len(nodes[n]), free[n], n.int)):
        chosen += sorted(nodes[n], key=key)[: count - len(chosen)]
        if len(chosen) == count:
            break
    return chosen


def explain(
    gpus: Sequence[GpuCapacity],
    request: Request,
    fitting: Sequence[GpuCapacity],
    policies: Sequence[Policy] = DEFAULT_POLICIES,
) -> str:
    """Return the reason why a request cannot be placed, with the request and a remedy."""
    requested = f"Requested {request}"
    if not gpus:
        return f"{requested}, but the pool has no GPU. Add a node."
    if len(fitting) >= request.gpu_count:
        return (
            f"{requested} on one node, but no node has so many free GPUs; all nodes together have "
            f"{len(fitting)}. The allocation starts when others end. "
            "A request for several nodes would start at once."
        )
    matching = [g for g in gpus if not mismatch(g, request)]
    if len(matching) < len(gpus) and len(matching) < request.gpu_count:
        return (
            f"{requested}, but only {len(matching)} of {len(gpus)} GPUs in the pool match: "
            f"{count_mismatches(gpus, request)}."
        )
    unusable = Counter(g.unusable_reason for g in matching if not g.usable)
    if len(matching) - unusable.total() < request.gpu_count:
        why = f" ({unusable.most_common(1)[0][0]})" if unusable else ""
        usable = len(matching) - unusable.total()
        return f"{requested}, but the pool has {count_gpus(usable, 'usable')}{why}."
    holders = f"only {count_gpus(len(fitting))}" if fitting else "no GPU"
    exclusive = (
        " The pool is exclusive: a GPU holds at most one partition."
        if Policy.EXCLUSIVE in policies
        else ""
    )
    return (
        f"{requested}, but {holders} can hold it; the most free on one GPU is "
        f"{describe_freest(matching)}.{exclusive} The allocation starts when others end."
    )


def describe_freest(gpus: Sequence[GpuCapacity]) -> str:
    """Return the percent and the memory that are free on the usable GPU with the most of them."""
    most, memory = max((g.free_percent, g.free_memory_bytes) for g in gpus if g.usable)
    return f"{most} % with {memory >> 20} MiB"


def count_mismatches(gpus: Sequence[GpuCapacity], request: Request) -> str:
    """Return the most common reasons why GPUs do not match, with their numbers."""
    mismatches = Counter(why for g in gpus if (why := mismatch(g, request)))
    return "; ".join(f"{n} {why}" for why, n in mismatches.most_common(3))


def count_gpus(number: int, adjective: str = "") -> str:
    """Return a number of GPUs as text with the correct plural."""
    noun = "GPU" if number == 1 else "GPUs"
    return " ".join(filter(None, (str(number), adjective, noun)))
