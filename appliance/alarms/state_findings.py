"""Conditions on the state of objects, from their rows and the live figures."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.db.models import F, Q
from django.utils import timezone

from appliance.alarms.findings import (
    APPLIANCE,
    Finding,
    allocations_of,
    gpus_of,
    nodes_of,
    subject_of,
)
from appliance.alarms.models import AlarmDefinition, ObjectKind
from appliance.backups import schedule
from appliance.inventory.models import Node, NodeState
from appliance.runtime import background, disk_space
from appliance.runtime.disk_space import Level
from appliance.telemetry import reachability

Found = dict[UUID, Finding]
HAS_LEFT_ENROLMENT = ~Q(state=NodeState.ENROLLING)
LEVELS = {"disk_low": Level.LOW, "disk_full": Level.FULL}


def find_states(definition: AlarmDefinition) -> Found:
    return BY_KIND[ObjectKind(definition.object_kind)](definition)


def find_node_states(definition: AlarmDefinition) -> Found:
    states = set(definition.states)
    where = Q(state__in=states)
    if "locked" in states:
        where |= Q(locked_at__isnull=False)
    if "not_applied" in states:
        where |= Q(applied_generation__lt=F("generation")) & HAS_LEFT_ENROLMENT
    found = {n.pk: of_node(n, states) for n in nodes_of(definition, where)}
    return found | (find_unreachable(definition) if "unreachable" in states else {})


def of_node(node: Node, states: set[str]) -> Finding:
    subject = subject_of(node)
    if node.locked_at is not None and "locked" in states:
        return Finding(subject, f"Node {node.name} is locked: {node.lock_reason}")
    if node.state in states:
        return Finding(subject, f"Node {node.name} is {node.state}.")
    return Finding(subject, f"Node {node.name} has not applied its desired state.")


def find_unreachable(definition: AlarmDefinition) -> Found:
    """Compare the ids of all nodes with the heartbeats, and read only those that lack one."""
    ids = Node.objects.present().filter(HAS_LEFT_ENROLMENT).values_list("pk", flat=True)
    if not (lost := reachability.unreachable(ids)):
        return {}
    return {
        n.pk: Finding(subject_of(n), f"Node {n.name} is unreachable.")
        for n in nodes_of(definition, Q(pk__in=lost))
    }


GPU_STATES = {
    "missing": (Q(present=False), "is no longer reported by its node"),
    "held": (Q(held=True), "waits for admission"),
    "duplicate": (Q(duplicate_of__isnull=False), "is held, because another node has the same GPU"),
    "mig": (Q(mig=True), "is in MIG mode, which excludes it from placement"),
}


def find_gpu_states(definition: AlarmDefinition) -> Found:
    found: Found = {}
    for state in definition.states:
        where, text = GPU_STATES[state]
        for gpu in gpus_of(definition, where):
            message = f"GPU {gpu.short_name} {text}."
            found.setdefault(gpu.pk, Finding(subject_of(gpu), message))
    return found


def find_appliance_states(definition: AlarmDefinition) -> Found:
    states = set(definition.states)
    problem = (
        (states & LEVELS.keys() and disk_problem(states))
        or ("backup_old" in states and schedule.old_backup(timezone.now()))
        or ("work_failed" in states and failed_work())
    )
    return {APPLIANCE.id: Finding(APPLIANCE, problem)} if problem else {}


def failed_work() -> str:
    """Return which background work of the appliance failed lately, or an empty text."""
    if names := background.failed():
        return f"Background work failed and was started again: {', '.join(names)}. See the log."
    return ""


def disk_problem(states: set[str]) -> str:
    """Return what is wrong with the disk, or an empty text."""
    reached = min(LEVELS[state] for state in states & LEVELS.keys())
    free = disk_space.free_mib()
    if disk_space.level() < reached:
        return ""
    return f"The disk of the data folder has {free:.0f} MiB left."


def find_allocation_states(definition: AlarmDefinition) -> Found:
    where = Q(state__in=definition.states)
    if "evicting" in definition.states:
        where |= Q(evict_at__isnull=False, ended_at=None)
    rows = allocations_of(definition, where)
    subjects = [subject_of(row) for row in rows]
    text = " or ".join(definition.states)
    return {s.id: Finding(s, f"Allocation {s.name} is {text}.") for s in subjects}


BY_KIND: dict[ObjectKind, Callable[[AlarmDefinition], Found]] = {
    ObjectKind.NODE: find_node_states,
    ObjectKind.GPU: find_gpu_states,
    ObjectKind.APPLIANCE: find_appliance_states,
    ObjectKind.ALLOCATION: find_allocation_states,
}
