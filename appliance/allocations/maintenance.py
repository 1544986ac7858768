"""Maintenance of nodes: stop placement, evict allocations, and wait until the node is empty."""

from __future__ import annotations

from uuid import UUID

from django.db.models import F, QuerySet

from appliance.accounts.actions import Action, by_row, raise_refusal
from appliance.accounts.models import User
from appliance.activity.events import SYSTEM, emit
from appliance.activity.models import Task
from appliance.activity.tasks import register_canceller, task_cancel, task_end, task_log, task_start
from appliance.allocations import lifecycle
from appliance.allocations.eviction import evict
from appliance.allocations.models import OCCUPYING, RUNNING, Allocation, AllocationState
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import run_each_in_savepoint, write_transaction
from appliance.inventory.actions import MANAGE, NODES
from appliance.inventory.models import Node, NodeState

TASK = "node.enter_maintenance"


def node_blockers(node: Node) -> QuerySet[Allocation]:
    """Return the allocations that occupy partitions on the node."""
    return Allocation.objects.filter(state__in=OCCUPYING, partitions__gpu__node=node).distinct()


@write_transaction
def enter_maintenance(*, node_id: UUID, grace_seconds: float, initiator: User) -> Task:
    """Drain a node: evict its allocations after a grace period.

    The task ends when the node is empty. Raises ApplianceError CONFLICT unless the node is ready
    or cordoned.
    """
    node = Node.objects.get(pk=node_id)
    raise_refusal(entry_refusal(initiator, node))
    if not Node.objects.filter(pk=node_id, version=node.version).update(
        state=NodeState.DRAINING, version=F("version") + 1
    ):
        raise changed_concurrently(node)
    message = f"Draining node {node.name}."
    emit_node_event(node, "node.draining", message, actor=initiator.username)
    record(node, "drained", {"state": node.state}, {"state": str(NodeState.DRAINING)})
    task = task_start(kind=TASK, path=node.path, initiator=initiator, message=message)
    for allocation in node_blockers(node):
        start_eviction(allocation, node, task, initiator, grace_seconds)
    complete_drained_nodes()
    task.refresh_from_db()
    return task


def eviction_reason(node: Node) -> str:
    return f"maintenance of node {node.name}"


def entry_refusal(user: User, node: Node) -> ApplianceError | None:
    if node.state in (NodeState.READY, NodeState.CORDONED):
        return None
    return ApplianceError(
        Code.CONFLICT,
        f"Node {node.name} is {node.state}; it must be ready or cordoned to enter maintenance.",
    )


def exit_refusal(node: Node) -> ApplianceError | None:
    if node.state in (NodeState.DRAINING, NodeState.MAINTENANCE):
        return None
    return ApplianceError(
        Code.CONFLICT, f"Node {node.name} is {node.state}; it is not in maintenance."
    )


def changed_concurrently(node: Node) -> ApplianceError:
    return ApplianceError(Code.CONFLICT, f"Node {node.name} changed concurrently; try again.")


def start_eviction(
    allocation: Allocation, node: Node, parent: Task, initiator: User, grace_seconds: float
) -> None:
    task_start(
        kind=lifecycle.EVICT_TASK,
        path=allocation.path,
        initiator=initiator,
        project_id=allocation.project_id,
        parent=parent,
        message=f"Evicting allocation {allocation.name or allocation.pk}.",
    )
    evict(
        allocation_id=allocation.pk,
        reason=eviction_reason(node),
        actor=initiator.username,
        grace_seconds=grace_seconds,
    )


@write_transaction
def complete_drained_nodes() -> None:
    """Put empty draining nodes into maintenance and update the tasks of the others.

    Called every second.
    """
    draining = Node.objects.filter(state=NodeState.DRAINING)
    run_each_in_savepoint(
        "maintenance: drain", draining, complete_if_drained, lambda node: node.name
    )


def complete_if_drained(node: Node) -> None:
    states = list(node_blockers(node).values_list("state", flat=True))
    if states:
        count, releasing = len(states), states.count(AllocationState.RELEASING)
        message = (
            f"{count} allocation{'' if count == 1 else 's'} left on node {node.name}; "
            f"{releasing} waiting for confirmation by the node."
        )
        task_log(path=node.path, kind=TASK, message=message)
    elif Node.objects.filter(pk=node.pk, state=NodeState.DRAINING).update(
        state=NodeState.MAINTENANCE, version=F("version") + 1
    ):
        message = f"Node {node.name} is empty and in maintenance."
        emit_node_event(node, "node.maintenance", message)
        task_end(path=node.path, kind=TASK)


@write_transaction
def exit_maintenance(*, node_id: UUID, actor: str) -> Node:
    """Make the node ready, cancel a drain that is in progress and withdraw its evictions.

    Evictions for other reasons stay: a role at the node permits nothing else.
    """
    node = Node.objects.get(pk=node_id)
    raise_refusal(exit_refusal(node))
    if not Node.objects.filter(pk=node_id, version=node.version).update(
        state=NodeState.READY, version=F("version") + 1
    ):
        raise changed_concurrently(node)
    for allocation in evicted_for(node):
        withdraw_for(node, allocation, actor)
    task_cancel(path=node.path, kind=TASK, reason=f"cancelled by {actor}")
    emit_node_event(node, "node.ready", f"Node {node.name} left maintenance.", actor=actor)
    record(node, "returned", {"state": node.state}, {"state": str(NodeState.READY)})
    node.refresh_from_db()
    return node


def evicted_for(node: Node) -> QuerySet[Allocation]:
    """Return the allocations on the node with an announced eviction that its drain has caused."""
    running = node_blockers(node).filter(state__in=RUNNING)
    return running.exclude(evict_at=None).filter(end_reason=eviction_reason(node))


def withdraw_for(node: Node, allocation: Allocation, actor: str) -> None:
    """Withdraw the eviction, unless another node of the allocation is draining as well."""
    others = Node.objects.filter(gpus__partitions__allocation=allocation, state=NodeState.DRAINING)
    if (other := others.exclude(pk=node.pk).first()) is None:
        lifecycle.withdraw_eviction(allocation, actor=actor)
        reason = f"cancelled by {actor}"
        task_cancel(path=allocation.path, kind=lifecycle.EVICT_TASK, reason=reason)
    else:
        lifecycle.change_eviction(allocation, reason=eviction_reason(other))


def emit_node_event(node: Node, kind: str, message: str, *, actor: str = SYSTEM) -> None:
    """Announce a change of the node's state."""
    change_log.record(Topic.NODE_CAPACITY, node.pk)
    emit(kind, path=node.path, object_id=node.pk, actor=actor, message=message)


def cancel_task(task: Task, user: User) -> None:
    exit_maintenance(node_id=UUID(task.path.removeprefix("nodes/")), actor=user.username)


ENTER = NODES.add(Action("enter_maintenance", MANAGE, by_row(entry_refusal), Node.places))
EXIT = NODES.add(
    Action("exit_maintenance", MANAGE, by_row(lambda _, node: exit_refusal(node)), Node.places)
)
register_canceller(TASK, MANAGE, cancel_task)
