"""Locks of nodes whose identity may exist twice."""

from __future__ import annotations

from uuid import UUID

from django.db.models import F
from django.utils import timezone

from appliance.activity.events import emit
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import write_transaction
from appliance.inventory.models import Node


@write_transaction
def lock_node(*, node_id: UUID, reason: str) -> None:
    """Lock a node until an operator unlocks it. Does nothing if it is locked already.

    Its agent cannot connect, its certificates are not renewed, nothing is placed on it and no
    tickets are issued for it. Running sessions continue.
    """
    rows = Node.objects.filter(pk=node_id, locked_at=None)
    if not rows.update(
        locked_at=timezone.now(), lock_reason=reason[:300], version=F("version") + 1
    ):
        return
    node = Node.objects.get(pk=node_id)
    change_log.record(Topic.NODE_CAPACITY, node_id)
    emit(
        "node.locked",
        path=node.path,
        object_id=node_id,
        message=f"Node {node.name} is locked: {reason}",
    )


@write_transaction
def unlock_node(*, node_id: UUID, actor: str) -> Node:
    """Unlock a node. Does nothing if it is not locked."""
    unlocked = (
        Node.objects.filter(pk=node_id)
        .exclude(locked_at=None)
        .update(locked_at=None, lock_reason="", version=F("version") + 1)
    )
    node = Node.objects.get(pk=node_id)
    record(node, "unlocked", {"locked": bool(unlocked)}, {"locked": False})
    if unlocked:
        change_log.record(Topic.NODE_CAPACITY, node_id)
        emit(
            "node.unlocked",
            path=node.path,
            object_id=node_id,
            actor=actor,
            message=f"Node {node.name} is unlocked.",
        )
    return node


def refuse_locked(node: Node) -> None:
    """Raise ApplianceError NODE_LOCKED if the node is locked."""
    if node.locked_at is not None:
        raise ApplianceError(Code.NODE_LOCKED, locked_message(node.name, node.lock_reason))


def locked_message(name: str, reason: str) -> str:
    return (
        f"Node {name} is locked: {reason} Find the second copy of its identity, then run"
        f" `busbar node unlock {name}`, or enrol the machine again."
    )
