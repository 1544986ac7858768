"""Changes of nodes and GPUs by users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db.models import F

from appliance.accounts.actions import raise_refusal
from appliance.activity.events import emit
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import write_transaction
from appliance.inventory import endpoints
from appliance.inventory.actions import schedule_refusal
from appliance.inventory.duplicates import take_from_held
from appliance.inventory.gpu_admission import refuse_mixture
from appliance.inventory.models import Gpu, Node, NodeState
from appliance.inventory.sites import find_site
from appliance.pools.services import find_pool


@write_transaction
def set_node_schedulable(*, node_id: UUID, schedulable: bool, actor: str) -> Node:
    """Cordon or uncordon a node. Existing allocations stay.

    Raises ApplianceError CONFLICT in other states than ready and cordoned.
    """
    old, new = (
        (NodeState.CORDONED, NodeState.READY)
        if schedulable
        else (NodeState.READY, NodeState.CORDONED)
    )
    node = Node.objects.get(pk=node_id)
    raise_refusal(schedule_refusal(node, schedulable=schedulable))
    before = values_of(node)
    if node.state == new:
        record_changed(node, before)
        return node
    if not Node.objects.filter(pk=node_id, state=old, version=node.version).update(
        state=new, version=F("version") + 1
    ):
        raise ApplianceError(Code.CONFLICT, f"Node {node.name} changed concurrently; try again.")
    change_log.record(Topic.NODE_CAPACITY, node_id)
    emit(
        f"node.{new}",
        path=node.path,
        object_id=node.pk,
        actor=actor,
        message=f"Node {node.name} is {new}.",
    )
    node.refresh_from_db()
    record_changed(node, before)
    return node


def changed_values(row: Node | Gpu, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from those of the row."""
    return {k: v for k, v in values.items() if v != getattr(row, k)}


@write_transaction
def update_node(*, node_id: UUID, values: Mapping[str, Any], actor: str) -> Node:
    """Change what users assign to a node. `values` are the fields of a request.

    `site` is a name; an empty one removes the node from its site. `networks` maps addresses of
    the node to network names.
    """
    node = Node.objects.select_related("site").get(pk=node_id)
    before = values_of(node)
    columns = dict(values)
    networks = columns.pop("networks", {})
    if "site" in columns:
        columns["site"] = find_site(columns["site"])
    changed = changed_values(node, columns)
    networks_changed = endpoints.set_networks(node_id, networks)
    if not changed and not networks_changed:
        record_changed(node, before)
        return node
    Node.objects.filter(pk=node_id).update(version=F("version") + 1, **changed)
    change_log.record(Topic.NODE_CAPACITY, node_id)
    node.refresh_from_db()
    record_changed(node, before)
    if networks_changed:
        changed["networks"] = networks
    for kind, message in describe_node_changes(node, changed):
        emit(kind, path=node.path, object_id=node.pk, actor=actor, message=message)
    return node


def describe_node_changes(node: Node, changed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield kind and message of the event for each changed value."""
    if "labels" in changed:
        yield "node.labelled", f"Labels of node {node.name} set to {changed['labels']}."
    if "site" in changed:
        site = changed["site"]
        moved = f"moved to site {site.name}" if site else "removed from its site"
        yield "node.moved", f"Node {node.name} {moved}."
    if "networks" in changed:
        yield "node.networks", f"Networks of node {node.name} set to {changed['networks']}."
    if "notes" in changed:
        yield "node.noted", f"Notes of node {node.name} changed."


@write_transaction
def update_gpu(*, gpu_id: UUID, values: Mapping[str, Any], actor: str) -> Gpu:
    """Change what users assign to a GPU. `values` are the fields of a request.

    `pool` is a name; an empty one removes the GPU from its pool. Existing partitions stay in any
    case.
    """
    gpu = Gpu.objects.select_related("node", "pool").get(pk=gpu_id)
    before = values_of(gpu)
    columns = dict(values)
    if "pool" in columns:
        columns["pool"] = find_pool(columns["pool"]) if columns["pool"] else None
    changed = changed_values(gpu, columns)
    if "pool" in changed:
        if changed["pool"]:
            refuse_mixture(gpu, changed["pool"])
        changed["held"] = False
    if changed:
        Gpu.objects.filter(pk=gpu_id).update(version=F("version") + 1, **changed)
        take_from_held(Gpu.objects.filter(pk=gpu_id))  # a move admits
    pools = [pool for pool in (gpu.pool, changed.get("pool")) if pool is not None]
    project_id = next((p.event_project for p in pools if p.event_project), None)
    for kind, message in describe_gpu_changes(gpu, changed):
        emit(
            kind,
            path=gpu.path,
            object_id=gpu.pk,
            project_id=project_id,
            actor=actor,
            message=message,
        )
    change_log.record(Topic.GPU_CAPACITY, gpu_id)
    gpu.refresh_from_db()
    record_changed(gpu, before)
    return gpu


def describe_gpu_changes(gpu: Gpu, changed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield kind and message of the event for each changed value."""
    name = f"GPU {gpu.index} of {gpu.node.name}"
    if "labels" in changed:
        yield "gpu.labelled", f"Labels of {name} set to {changed['labels']}."
    if "pool" in changed:
        pool = changed["pool"]
        moved = f"moved to pool {pool.name}" if pool else "removed from its pool"
        yield "gpu.moved", f"{name} {moved}."
    if "notes" in changed:
        yield "gpu.noted", f"Notes of {name} changed."
