"""Maintenance mode: a node gets nothing new, what is there is asked to leave, and when nothing is left it may be worked on."""

from __future__ import annotations

from uuid import UUID

from django.db.models import F, QuerySet

from appliance.accounts.models import User
from appliance.activity.models import Task
from appliance.activity.services import emit, task_end, task_say, task_start
from appliance.activity.tasks import register_canceller, task_cancel
from appliance.allocations import lifecycle
from appliance.allocations.lifecycle import EVICT_TASK
from appliance.allocations.models import OCCUPYING, Allocation, AllocationState
from appliance.allocations.services import evict
from appliance.errors import ApplianceError, Code
from appliance.inventory import changes
from appliance.inventory.models import Node, NodeState
from appliance.writer import writes

TASK = "node.enter_maintenance"


def blockers(node: Node) -> QuerySet[Allocation]:
    """What still has partitions there."""
    return Allocation.objects.filter(state__in=OCCUPYING, partitions__gpu__node=node).distinct()


@writes
def enter(*, node_id: UUID, grace_seconds: float, initiator: User) -> Task:
    """Allocations there get notice for so long. The task ends when the node is empty."""
    node = Node.objects.get(pk=node_id)
    if not Node.objects.filter(
        pk=node_id, state__in=[NodeState.READY, NodeState.CORDONED], version=node.version
    ).update(state=NodeState.DRAINING, version=F("version") + 1):
        raise ApplianceError(
            Code.CONFLICT,
            f"Node {node.name} is {node.state}; only a node that is ready or cordoned can enter maintenance mode.",
        )
    changes.node_changed(node_id)
    actor = initiator.username
    emit(
        "node.draining",
        path=node.path,
        object_id=node.pk,
        actor=actor,
        message=f"Node {node.name} gets nothing new and is being emptied.",
    )
    task = task_start(
        kind=TASK,
        path=node.path,
        initiator=initiator,
        message=f"Node {node.name} is being emptied.",
    )
    for allocation in blockers(node):
        size = allocation.name or f"{allocation.pk}"
        task_start(
            kind=EVICT_TASK,
            path=allocation.path,
            initiator=initiator,
            project_id=allocation.project_id,
            parent=task,
            message=f"Allocation {size} is to leave.",
        )
        evict(
            allocation_id=allocation.pk,
            reason=f"node {node.name} enters maintenance mode",
            actor=actor,
            grace_seconds=grace_seconds,
        )
    advance()
    task.refresh_from_db()
    return task


@writes
def advance() -> None:
    """Every second: nodes that are empty by now are in maintenance mode; the others' tasks say what is left."""
    for node in Node.objects.filter(state=NodeState.DRAINING):
        left = list(blockers(node).values_list("state", flat=True))
        if not left:
            if Node.objects.filter(pk=node.pk, state=NodeState.DRAINING).update(
                state=NodeState.MAINTENANCE, version=F("version") + 1
            ):
                changes.node_changed(node.pk)
                emit(
                    "node.maintenance",
                    path=node.path,
                    object_id=node.pk,
                    message=f"Node {node.name} is empty and in maintenance mode.",
                )
                task_end(path=node.path, kind=TASK)
            continue
        releasing = left.count(AllocationState.RELEASING)
        message = f"{len(left)} allocations are left on node {node.name}; {releasing} of them wait for the node's word."
        task_say(path=node.path, kind=TASK, message=message)


@writes
def leave(*, node_id: UUID, actor: str) -> Node:
    """Back to work, or never mind: what had notice because of it, and is still there, may stay."""
    node = Node.objects.get(pk=node_id)
    if not Node.objects.filter(
        pk=node_id, state__in=[NodeState.DRAINING, NodeState.MAINTENANCE], version=node.version
    ).update(state=NodeState.READY, version=F("version") + 1):
        raise ApplianceError(
            Code.CONFLICT, f"Node {node.name} is {node.state}; it is not in maintenance mode."
        )
    changes.node_changed(node_id)
    for allocation in blockers(node).filter(state=AllocationState.ACTIVE).exclude(evict_at=None):
        lifecycle.withdraw_end(allocation, actor=actor)
        task_cancel(path=allocation.path, kind=EVICT_TASK, actor=actor)
    task_cancel(path=node.path, kind=TASK, actor=actor)
    emit(
        "node.ready",
        path=node.path,
        object_id=node.pk,
        actor=actor,
        message=f"Node {node.name} left maintenance mode.",
    )
    node.refresh_from_db()
    return node


def cancelled(task: Task, user: User) -> None:
    leave(node_id=UUID(task.path.removeprefix("nodes/")), actor=user.username)


register_canceller(TASK, "inventory.manage", cancelled)
