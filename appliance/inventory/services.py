"""Nodes and GPUs as agents report them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F

from appliance.activity.services import emit
from appliance.errors import ApplianceError, Code
from appliance.inventory import changes, endpoints, wakeups
from appliance.inventory.models import DEFAULT_NETWORK, Endpoint, Gpu, Node, NodeState
from appliance.inventory.sites import site_named
from appliance.pools.models import Pool
from appliance.prepared import Select, Update
from appliance.telemetry import latest
from appliance.writer import writes


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
    """Index of another GPU of the node, and how it is reached; in order."""


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


def node_create(*, name: str) -> Node:
    """A name that is taken gets a number. Inside a transaction."""
    base, number, candidate = name[:90] or "node", 1, name[:90] or "node"
    while Node.objects.present().filter(name=candidate).exists():
        number += 1
        candidate = f"{base}-{number}"
    node = Node.objects.create(name=candidate)
    emit(
        "node.enrolling",
        path=node.path,
        object_id=node.pk,
        message=f"Node {candidate} redeemed its enrolment token.",
    )
    return node


def node_report(*, node_id: UUID, report: ReportedNode) -> None:
    """What a node is made of, from its own mouth. GPUs that it no longer lists are kept, marked absent. After a restart of the appliance all nodes say it at
    once, and most say nothing new: that costs no write."""
    if not as_known(node_id, report):
        record_report(node_id=node_id, report=report)


def as_known(node_id: UUID, report: ReportedNode) -> bool:
    node = Node.objects.get(pk=node_id)
    if node.state == NodeState.ENROLLING or any(
        getattr(node, name) != value for name, value in facts_of(report).items()
    ):
        return False
    gpus = {as_reported(g) for g in node.gpus.all() if g.present}
    return gpus == set(report.gpus) and list(report.endpoints) == endpoints_of(node)


def as_reported(g: Gpu) -> ReportedGpu:
    links = tuple(sorted((int(index), way) for index, way in g.links.items()))
    return ReportedGpu(
        g.uuid, g.index, g.model, g.memory_bytes, g.compute_capability, g.pci_bus_id, g.mig, links
    )


def facts_of(report: ReportedNode) -> dict[str, object]:
    return {
        "agent_version": report.agent_version[:50], "driver_version": report.driver_version[:50], "cuda_version": report.cuda_version[:20],
        "operating_system": report.operating_system[:100], "software": report.software, "boot_id": report.boot_id[:64],
    }  # fmt: skip


def endpoints_of(node: Node) -> list[tuple[str, int]]:
    return list(node.endpoints.order_by("position").values_list("address", "port"))


@writes
def record_report(*, node_id: UUID, report: ReportedNode) -> None:
    node = Node.objects.get(pk=node_id)
    Node.objects.filter(pk=node_id).update(**facts_of(report))
    if Node.objects.filter(pk=node_id, state=NodeState.ENROLLING).update(
        state=NodeState.READY, version=F("version") + 1
    ):
        emit(
            "node.ready",
            path=node.path,
            object_id=node.pk,
            message=f"Node {node.name} is ready with {len(report.gpus)} GPUs.",
        )
    changes.node_changed(node_id)
    record_endpoints(node, report.endpoints)
    record_gpus(node, report.gpus)


def record_endpoints(node: Node, reported: Iterable[tuple[str, int]]) -> None:
    wanted = list(reported)
    if wanted == endpoints_of(node):
        return
    networks = dict(node.endpoints.values_list("address", "network"))  # people named them
    node.endpoints.all().delete()
    made = (
        Endpoint(node=node, address=a, port=p, position=i, network=networks.get(a, DEFAULT_NETWORK))
        for i, (a, p) in enumerate(wanted)
    )
    Endpoint.objects.bulk_create(made)


def record_gpus(node: Node, reported: Iterable[ReportedGpu]) -> None:
    known = {g.uuid: g for g in node.gpus.all()}
    default_pool = Pool.objects.order_by("created_at").first()
    for r in reported:
        gpu = known.pop(r.uuid, None)
        if gpu is None:
            gpu = Gpu.objects.create(
                node=node,
                pool=default_pool,
                uuid=r.uuid,
                index=r.index,
                model=r.model[:100],
                memory_bytes=r.memory_bytes,
                compute_capability=r.compute_capability[:10],
                pci_bus_id=r.pci_bus_id,
                mig=r.mig,
                links={str(index): way for index, way in r.links},
            )
            emit(
                "gpu.found",
                path=gpu.path,
                object_id=gpu.pk,
                message=f"GPU {r.index} of {node.name}: {r.model}.",
            )
        else:
            gpu_again(node, gpu, r)
    for gone in known.values():
        if Gpu.objects.filter(pk=gone.pk, present=True).update(
            present=False, version=F("version") + 1
        ):
            emit(
                "gpu.gone",
                path=gone.path,
                object_id=gone.pk,
                message=f"GPU {gone.index} of {node.name} is no longer there.",
            )


def gpu_again(node: Node, gpu: Gpu, r: ReportedGpu) -> None:
    """One that is known: it may have moved to another slot, come back, or been cut into instances behind our back."""
    memory = max(
        r.memory_bytes, gpu.taken_memory_bytes
    )  # what was given from it before it shrank stays counted
    now = {
        "index": r.index, "model": r.model[:100], "memory_bytes": memory, "compute_capability": r.compute_capability[:10], "pci_bus_id": r.pci_bus_id,
        "mig": r.mig, "links": {str(index): way for index, way in r.links}, "present": True,
    }  # fmt: skip
    changed = {name: value for name, value in now.items() if getattr(gpu, name) != value}
    if changed:
        Gpu.objects.filter(pk=gpu.pk).update(version=F("version") + 1, **changed)
        changes.gpus_changed([gpu.pk])
    if "present" in changed:
        emit(
            "gpu.returned",
            path=gpu.path,
            object_id=gpu.pk,
            message=f"GPU {r.index} of {node.name} is there again.",
        )
    if "mig" in changed:
        how = (
            "is in MIG mode now: nothing new starts on it"
            if r.mig
            else "left MIG mode: it can be given again"
        )
        emit(
            "gpu.mig",
            path=gpu.path,
            object_id=gpu.pk,
            message=f"GPU {r.index} of {node.name} {how}.",
        )


def gpu_ids(node_id: UUID) -> dict[UUID, UUID]:
    """NVML's UUID of each GPU of the node to its id here."""
    return dict(Gpu.objects.filter(node_id=node_id).values_list("uuid", "pk"))


RAISE_GENERATION = Update(
    lambda ids: (Node.objects.filter(pk__in=ids), {"generation": F("generation") + 1}),
    returning=("id", "generation"),
)
GENERATIONS = Select(lambda ids: Node.objects.filter(pk__in=ids).values_list("pk", "generation"))


def generation_of(node_id: UUID) -> int:
    """Of its desired state; raises Node.DoesNotExist."""
    for _, generation in GENERATIONS.rows(ids=[node_id]):
        return int(generation)
    raise Node.DoesNotExist


def raise_generation(node_ids: Iterable[UUID]) -> dict[UUID, int]:
    """New generation of each node. Inside the transaction that changes what they should do."""
    ids = set(node_ids)
    transaction.on_commit(lambda: wakeups.hint(ids))
    if not ids:
        return {}
    return {node_id: generation for node_id, generation in RAISE_GENERATION.rows(ids=list(ids))}


@writes
def node_set_schedulable(*, node_id: UUID, schedulable: bool, actor: str) -> Node:
    """Cordon and uncordon: present allocations stay, new ones do not come."""
    old, new = (
        (NodeState.CORDONED, NodeState.READY)
        if schedulable
        else (NodeState.READY, NodeState.CORDONED)
    )
    node = Node.objects.get(pk=node_id)
    if node.state == new:
        return node
    if not Node.objects.filter(pk=node_id, state=old, version=node.version).update(
        state=new, version=F("version") + 1
    ):
        raise ApplianceError(
            Code.CONFLICT, f"Node {node.name} is {node.state}; it must be {old} for this."
        )
    changes.node_changed(node_id)
    emit(
        f"node.{new}",
        path=node.path,
        object_id=node.pk,
        actor=actor,
        message=f"Node {node.name} is {new}.",
    )
    node.refresh_from_db()
    return node


@writes
def node_change(
    *, node_id: UUID, actor: str, labels: dict[str, str] | None = None, notes: str | None = None, site: str | None = None,
    networks: dict[str, str] | None = None,
) -> Node:  # fmt: skip
    """What people say of it. `site`: a name; empty: none. `networks`: of its addresses."""
    node = Node.objects.select_related("site").get(pk=node_id)
    changed: dict[str, Any] = {
        key: value
        for key, value in (("labels", labels), ("notes", notes))
        if value is not None and value != getattr(node, key)
    }
    if site is not None and site != (node.site.name if node.site else ""):
        changed["site"] = site_named(site)
    labelled = endpoints.label(node_id, networks or {})
    if changed or labelled:
        Node.objects.filter(pk=node_id).update(version=F("version") + 1, **changed)
        changes.node_changed(node_id)
        node.refresh_from_db()
        if "labels" in changed:
            emit(
                "node.labelled",
                path=node.path,
                object_id=node.pk,
                actor=actor,
                message=f"Node {node.name} has the labels {labels}.",
            )
        if "site" in changed:
            where = f"stands at site {site} now" if site else "stands at no site now"
            emit(
                "node.moved",
                path=node.path,
                object_id=node.pk,
                actor=actor,
                message=f"Node {node.name} {where}.",
            )
        if labelled:
            emit(
                "node.networks",
                path=node.path,
                object_id=node.pk,
                actor=actor,
                message=f"Addresses of node {node.name} are of the networks {networks}.",
            )
        if "notes" in changed:
            emit(
                "node.noted",
                path=node.path,
                object_id=node.pk,
                actor=actor,
                message=f"The notes on node {node.name} were changed.",
            )
    return node


@writes
def gpu_change(
    *,
    gpu_id: UUID,
    labels: dict[str, str] | None = None,
    pool_name: str | None = None,
    notes: str | None = None,
    actor: str,
) -> Gpu:
    """Another pool takes effect for what starts from now on; what runs on it stays."""
    gpu = Gpu.objects.select_related("node", "pool").get(pk=gpu_id)
    if labels is not None and labels != gpu.labels:
        Gpu.objects.filter(pk=gpu_id).update(labels=labels, version=F("version") + 1)
        emit(
            "gpu.labelled",
            path=gpu.path,
            object_id=gpu.pk,
            actor=actor,
            message=f"GPU {gpu.index} of {gpu.node.name} has the labels {labels}.",
        )
    if pool_name is not None and pool_name != (gpu.pool.name if gpu.pool else ""):
        pool = Pool.objects.filter(name=pool_name).first()
        if pool is None and pool_name:
            raise ApplianceError(
                Code.NOT_FOUND, f"There is no pool {pool_name}; `busbar pool list` shows them."
            )
        Gpu.objects.filter(pk=gpu_id).update(pool=pool, version=F("version") + 1)
        where = f"is in pool {pool_name} now" if pool_name else "is in no pool now"
        emit(
            "gpu.moved",
            path=gpu.path,
            object_id=gpu.pk,
            actor=actor,
            message=f"GPU {gpu.index} of {gpu.node.name} {where}.",
        )
    if notes is not None and notes != gpu.notes:
        Gpu.objects.filter(pk=gpu_id).update(notes=notes, version=F("version") + 1)
        emit(
            "gpu.noted",
            path=gpu.path,
            object_id=gpu.pk,
            actor=actor,
            message=f"The notes on GPU {gpu.index} of {gpu.node.name} were changed.",
        )
    changes.gpus_changed([gpu_id])
    gpu.refresh_from_db()
    return gpu


PRESENT = Select(lambda: Node.objects.present().values_list("pk"))
_reachable: dict[UUID, bool] = {}
_started = time.monotonic()


def announce_reachability() -> None:
    """Reachable is computed, so no row changes: browsers and the events learn of it here, once a second."""
    ids = [node_id for (node_id,) in PRESENT.rows()]
    silent, young = (
        latest.unreachable(ids),
        time.monotonic() - _started < settings.ENVIRONMENT.unreachable_seconds,
    )
    changed = {}
    for node_id in ids:
        now, before = node_id not in silent, _reachable.get(node_id)
        if before is None and not now and young:
            continue  # it may not have found us again yet
        _reachable[node_id] = now
        if before is not None and before != now:
            changed[node_id] = now
    if changed:
        reachability_changed(reachable=changed)


@writes
def reachability_changed(*, reachable: Mapping[UUID, bool]) -> None:
    for node in Node.objects.filter(pk__in=reachable):
        known = reachable[node.pk]
        kind, message = (
            ("node.reachable", "reports again")
            if known
            else ("node.unreachable", "does not report; its sessions go on, it gets nothing new")
        )
        emit(kind, path=node.path, object_id=node.pk, message=f"Node {node.name} {message}.")
