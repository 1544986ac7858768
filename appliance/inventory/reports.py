"""Nodes and GPUs as reported by agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F

from appliance.activity.events import emit
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import run_in_savepoint, write_transaction
from appliance.inventory import duplicates, gpu_admission
from appliance.inventory.models import DEFAULT_NETWORK, Endpoint, Gpu, Node, NodeState
from appliance.pools.isolation import LAYERS, IsolationLevel, describe, satisfies

UNCHANGED_ROWS, INVENTORY_ROWS, GPU_ROWS, PRESENCE_ROWS = 6, 15, 1, 3
"""Work of an inventory without changes, of a changed one, of each of its GPUs, and of each that
disappears or returns, in rows that are written. An announced allocation counts as one row."""


@dataclass(frozen=True)
class ReportedGpu:
    uuid: UUID
    index: int
    model: str
    memory_bytes: int
    compute_capability: str
    pci_bus_id: str = ""
    mig: bool = False
    links: tuple[tuple[int, str], ...] = ()
    """Index of another GPU of the node and its connection, in order of the index."""
    context_bytes: int | None = None
    """None: the agent has not measured it since its start, or is too old; a known value stays.

    One that is not less than the memory is no size of a context, and counts as not known."""

    def columns(self) -> dict[str, object]:
        """Return the columns of `Gpu` that a report sets, without the UUID."""
        known: dict[str, object] = {}
        if self.context_bytes is not None:
            is_possible = self.context_bytes < self.memory_bytes
            known = {"context_bytes": self.context_bytes if is_possible else 0}
        return known | {
            "index": self.index,
            "model": self.model[:100],
            "memory_bytes": self.memory_bytes,
            "compute_capability": self.compute_capability[:10],
            "pci_bus_id": self.pci_bus_id,
            "mig": self.mig,
            "links": {str(index): connection for index, connection in self.links},
        }


@dataclass(frozen=True)
class ReportedNode:
    agent_version: str
    driver_version: str
    operating_system: str
    software: bool
    boot_id: str
    endpoints: tuple[tuple[str, int], ...]
    gpus: tuple[ReportedGpu, ...]
    cuda_version: str = ""
    isolation: IsolationLevel | None = None
    """None: the launcher has started no session server yet, so the level is not known."""
    missing_layers: tuple[str, ...] = ()
    """Layers that are not in force, if the level is known."""
    suspends_sessions: bool = False
    resizes_allocations: bool = False

    def columns(self) -> dict[str, object]:
        """Return the columns of `Node` that a report sets."""
        known: dict[str, object] = {}
        if self.isolation is not None:
            known = {"isolation": self.isolation, "missing_layers": list(self.missing_layers)}
        return known | {
            "agent_version": self.agent_version[:50],
            "driver_version": self.driver_version[:50],
            "cuda_version": self.cuda_version[:20],
            "operating_system": self.operating_system[:100],
            "software": self.software,
            "suspends_sessions": self.suspends_sessions,
            "resizes_allocations": self.resizes_allocations,
            "boot_id": self.boot_id[:64],
        }


def create_node(*, name: str, simulated: bool = False) -> Node:
    """Create a node during its enrolment. A number is appended to a name that is taken.

    Must be called inside a transaction.
    """
    base, number, candidate = name[:90] or "node", 1, name[:90] or "node"
    while Node.objects.present().filter(name=candidate).exists():
        number += 1
        candidate = f"{base}-{number}"
    node = Node.objects.create(name=candidate, expects_gpus=True, simulated=simulated)
    emit(
        "node.enrolling",
        path=node.path,
        object_id=node.pk,
        message=f"Node {candidate} redeemed its enrolment token.",
    )
    return node


def record_node_report(*, node_id: UUID, report: ReportedNode) -> int:
    """Record a report, unless it changes nothing.

    After a restart of the appliance all nodes report at once, mostly without changes; these
    reports cost no write. GPUs that are no longer reported stay, marked as not present. Return the
    work, in rows that are written.
    """
    if is_unchanged(node_id, report):
        return UNCHANGED_ROWS
    dependent = apply_node_report(node_id=node_id, report=report)
    return INVENTORY_ROWS + GPU_ROWS * len(report.gpus) + dependent


def is_unchanged(node_id: UUID, report: ReportedNode) -> bool:
    node = Node.objects.get(pk=node_id)
    first = node.expects_gpus and bool(report.gpus)
    if (
        first
        or node.state == NodeState.ENROLLING
        or any(getattr(node, name) != value for name, value in report.columns().items())
    ):
        return False
    gpus = {g.uuid: g for g in node.gpus.all() if g.present}
    return (
        gpus.keys() == {r.uuid for r in report.gpus}
        and not any(changed_columns(gpus[r.uuid], r.columns()) for r in report.gpus)
        and list(report.endpoints) == endpoint_addresses(node)
    )


def changed_columns(gpu: Gpu, columns: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in columns.items() if getattr(gpu, name) != value}


def endpoint_addresses(node: Node) -> list[tuple[str, int]]:
    return list(node.endpoints.order_by("position").values_list("address", "port"))


@write_transaction
def apply_node_report(*, node_id: UUID, report: ReportedNode) -> int:
    """Apply a changed report. Return the work of what depends on its GPUs, in rows.

    Does nothing for a removed node, whose GPUs other nodes may have by now.
    """
    node = Node.objects.get(pk=node_id)
    if not Node.objects.present().filter(pk=node_id).update(**report.columns()):
        return 0
    if Node.objects.filter(pk=node_id, state=NodeState.ENROLLING).update(
        state=NodeState.READY, version=F("version") + 1
    ):
        count = len(report.gpus)
        emit(
            "node.ready",
            path=node.path,
            object_id=node.pk,
            message=f"Node {node.name} is ready with {count} GPU{'' if count == 1 else 's'}.",
        )
    elif report.isolation is not None and report.isolation != node.isolation:
        emit_isolation_changed(node, report.isolation, report.missing_layers)
    change_log.record(Topic.NODE_CAPACITY, node_id)
    change_log.record(Topic.NODE_INVENTORY, node_id)
    replace_endpoints(node, report.endpoints)
    rows = 0

    def apply() -> None:
        nonlocal rows
        rows = apply_gpu_reports(node, report.gpus)

    # Another controller may record the same GPU at this time: the next look finds its claim.
    run_in_savepoint(apply, (IntegrityError,), apply)
    return rows


def emit_isolation_changed(node: Node, now: IsolationLevel, missing: Iterable[str]) -> None:
    before = IsolationLevel(node.isolation)
    fell = not satisfies(now, before)
    emit(
        "node.isolation_fell" if fell else "node.isolation_rose",
        path=node.path,
        object_id=node.pk,
        message=f"Isolation of node {node.name} {'fell' if fell else 'rose'} from {before} to {now}"
        + (
            f": {describe(LAYERS[before].intersection(missing))} not in force for all sessions."
            " Pools that require more place nothing on it; see the logs of its spawner and agent."
            if fell
            else "."
        ),
    )


def replace_endpoints(node: Node, reported: Iterable[tuple[str, int]]) -> None:
    """Replace the endpoints of a node; addresses keep the networks that users assigned."""
    addresses = list(reported)
    if addresses == endpoint_addresses(node):
        return
    networks = dict(node.endpoints.values_list("address", "network"))
    node.endpoints.all().delete()
    Endpoint.objects.bulk_create(
        Endpoint(
            node=node,
            address=address,
            port=port,
            position=position,
            network=networks.get(address, DEFAULT_NETWORK),
        )
        for position, (address, port) in enumerate(addresses)
    )


def apply_gpu_reports(node: Node, reported: Sequence[ReportedGpu]) -> int:
    """Create, update or mark as missing each GPU of a node.

    Return the work of known and held GPUs that disappeared or returned, and of the allocations
    that are announced, in rows.
    """
    moved = gpu_admission.forget_held(node, [r.uuid for r in reported])
    known = {g.uuid: g for g in node.gpus.all()}
    present_now = known.keys() & {r.uuid for r in reported}
    moved += len(present_now ^ {g.uuid for g in known.values() if g.present})
    rows = PRESENCE_ROWS * moved
    if reported and node.expects_gpus:
        Node.objects.filter(pk=node.pk).update(expects_gpus=False)
    appeared = [r for r in reported if r.uuid not in known or not known[r.uuid].present]
    claims = duplicates.find_claims(node, [r.uuid for r in appeared]) if appeared else {}
    if new := [r for r in reported if r.uuid not in known]:
        gpu_admission.add_gpus(node, new, claims)
    for report in reported:
        if gpu := known.pop(report.uuid, None):
            claim = claims.get(report.uuid)
            rows += update_known_gpu(node, gpu, report, claim.pk if claim else gpu.duplicate_of_id)
    if claims:
        taken = duplicates.take_from_held(Gpu.objects.filter(node=node, uuid__in=list(claims)))
        duplicates.emit_reported(node, [r for r in appeared if r.uuid not in taken], claims)
    for gpu in known.values():
        if Gpu.objects.filter(pk=gpu.pk, present=True).update(
            present=False, duplicate_of=None, version=F("version") + 1
        ):
            emit_gpu_event(gpu, "gpu.gone", f"GPU {gpu.index} of {node.name} is missing.")
    return rows


def update_known_gpu(node: Node, gpu: Gpu, report: ReportedGpu, claim: UUID | None) -> int:
    """Update a known GPU, which may have moved, returned, or entered or left MIG mode.

    `claim` is the GPU of which it is a duplicate. Return the number of announced allocations.
    """
    columns = report.columns() | {"present": True, "duplicate_of_id": claim}
    # Memory never falls below the taken memory: existing partitions stay counted.
    columns["memory_bytes"] = max(report.memory_bytes, gpu.taken_memory_bytes)
    if changed := changed_columns(gpu, columns):
        Gpu.objects.filter(pk=gpu.pk).update(version=F("version") + 1, **changed)
        change_log.record(Topic.GPU_CAPACITY, gpu.pk)
    announced = announce_allocations(gpu) if "context_bytes" in changed else 0
    if claim is not None and "duplicate_of_id" in changed:
        duplicates.wait_for(claim, Gpu.objects.filter(duplicate_of=gpu.pk))
    name = f"GPU {report.index} of {node.name}"
    if "present" in changed:
        emit_gpu_event(gpu, "gpu.returned", f"{name} is present again.")
    if "mig" in changed:
        state = (
            "is in MIG mode and excluded from placement"
            if report.mig
            else "left MIG mode and is available for placement"
        )
        emit_gpu_event(gpu, "gpu.mig", f"{name} {state}.")
    return announced


def announce_allocations(gpu: Gpu) -> int:
    """Announce the allocations of a GPU, which show how many contexts fit. Return how many."""
    allocation_ids = gpu.partitions.values_list("allocation_id", flat=True)
    for allocation_id in allocation_ids:
        change_log.record(Topic.ALLOCATION, allocation_id)
    return len(allocation_ids)


def emit_gpu_event(gpu: Gpu, kind: str, message: str) -> None:
    project_id = gpu.pool.event_project if gpu.pool else None
    emit(kind, path=gpu.path, object_id=gpu.pk, project_id=project_id, message=message)


def gpu_ids_by_uuid(node_id: UUID) -> dict[UUID, UUID]:
    """Return the id of each GPU of a node by its NVML UUID."""
    return dict(Gpu.objects.filter(node_id=node_id).values_list("uuid", "pk"))
