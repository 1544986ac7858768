"""Alarm definitions that come with the product. Administrators change and disable them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from appliance.alarms.models import AlarmDefinition, Condition, ObjectKind, Severity
from appliance.db.writer import write_transaction

Row = dict[str, Any]
INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
MINUTE, HOUR, DAY = 60, 3600, 86_400


def state(name: str, severity: Severity, kind: ObjectKind, states: str, **fields: Any) -> Row:
    return {
        "name": name,
        "severity": severity,
        "object_kind": kind,
        "condition": Condition.STATE,
        "states": states.split(),
        **fields,
    }


def metric(name: str, severity: Severity, column: str, threshold: float, **fields: Any) -> Row:
    return {
        "name": name,
        "severity": severity,
        "object_kind": ObjectKind.GPU,
        "condition": Condition.METRIC,
        "metric": column,
        "threshold": threshold,
        **fields,
    }


def event(name: str, severity: Severity, kind: ObjectKind, event_kind: str, **fields: Any) -> Row:
    return {
        "name": name,
        "severity": severity,
        "object_kind": kind,
        "condition": Condition.EVENT,
        "event_kind": event_kind,
        "threshold": 1,
        "window_seconds": HOUR,
        **fields,
    }


def xid(name: str, severity: Severity, xid_class: str, **fields: Any) -> Row:
    return {
        "name": name,
        "severity": severity,
        "object_kind": ObjectKind.GPU,
        "condition": Condition.XID,
        "xid_class": xid_class,
        **fields,
    }


def longer(
    name: str, severity: Severity, kind: ObjectKind, condition: Condition, threshold: float
) -> Row:
    return {
        "name": name,
        "severity": severity,
        "object_kind": kind,
        "condition": condition,
        "threshold": threshold,
    }


NODE, GPU = ObjectKind.NODE, ObjectKind.GPU
APPLIANCE, ALLOCATION = ObjectKind.APPLIANCE, ObjectKind.ALLOCATION
DEFINITIONS: Sequence[Row] = (
    state("Node unreachable", CRITICAL, NODE, "unreachable", clear_after_seconds=30),
    state("Node locked", CRITICAL, NODE, "locked", clear_after_seconds=0),
    state("Node cordoned for a day", INFO, NODE, "cordoned", raise_after_seconds=DAY),
    state("Node drains for an hour", WARNING, NODE, "draining", raise_after_seconds=HOUR),
    state("Node in maintenance for a day", INFO, NODE, "maintenance", raise_after_seconds=DAY),
    state("Node enrolment incomplete", WARNING, NODE, "enrolling", raise_after_seconds=15 * MINUTE),
    state(
        "Desired state not applied", WARNING, NODE, "not_applied", raise_after_seconds=5 * MINUTE
    ),
    state("GPU missing", CRITICAL, GPU, "missing", raise_after_seconds=30),
    state("GPU waits for admission", INFO, GPU, "held", raise_after_seconds=5 * MINUTE),
    state("GPU of two nodes", WARNING, GPU, "duplicate", raise_after_seconds=30),
    state("GPU in MIG mode", INFO, GPU, "mig"),
    state("Disk space low", WARNING, APPLIANCE, "disk_low"),
    state("Disk full", CRITICAL, APPLIANCE, "disk_full"),
    state("Last backup is old", WARNING, APPLIANCE, "backup_old", clear_after_seconds=0),
    state("Background work fails", CRITICAL, APPLIANCE, "work_failed", clear_after_seconds=0),
    state("Release takes long", WARNING, ALLOCATION, "releasing", raise_after_seconds=5 * MINUTE),
    metric(
        "GPU hot",
        WARNING,
        "temperature_celsius",
        85,
        clear_threshold=80,
        raise_after_seconds=5 * MINUTE,
    ),
    metric(
        "GPU overheated",
        CRITICAL,
        "temperature_celsius",
        92,
        clear_threshold=88,
        raise_after_seconds=MINUTE,
    ),
    metric(
        "GPU memory hot",
        WARNING,
        "memory_temperature_celsius",
        95,
        clear_threshold=90,
        raise_after_seconds=5 * MINUTE,
    ),
    metric("Uncorrected ECC errors", CRITICAL, "ecc_uncorrected_errors", 0),
    metric(
        "Many corrected ECC errors",
        WARNING,
        "ecc_corrected_errors",
        1000,
        raise_after_seconds=MINUTE,
    ),
    metric(
        "GPU clocks reduced",
        INFO,
        "performance_state",
        8,
        raise_after_seconds=DAY,
        enabled=False,
    ),
    metric(
        "GPU busy for a day",
        INFO,
        "utilisation_percent",
        95,
        clear_threshold=80,
        raise_after_seconds=DAY,
        enabled=False,
    ),
    metric(
        "Fan at its limit", WARNING, "fan_percent", 98, clear_threshold=90, raise_after_seconds=600
    ),
    xid("GPU memory fault (XID)", CRITICAL, "memory"),
    xid("GPU bus fault (XID)", CRITICAL, "bus"),
    xid("GPU engine fault (XID)", WARNING, "engine"),
    xid("Program fault on a GPU (XID)", INFO, "application"),
    event("Node sends invalid messages", WARNING, NODE, "node.message_refused", threshold=10),
    event("Node flaps", WARNING, NODE, "node.unreachable", threshold=3),
    event("Node enrolled again", INFO, NODE, "node.enrolled_again"),
    event("Many preemptions", WARNING, APPLIANCE, "allocation.evicting", threshold=20),
    longer("Node certificate ends", CRITICAL, NODE, Condition.CERTIFICATE_AGE, threshold=2 * HOUR),
    longer(
        "Appliance certificate ends",
        CRITICAL,
        APPLIANCE,
        Condition.CERTIFICATE_AGE,
        threshold=14 * DAY,
    ),
    longer("Long wait in the queue", WARNING, ALLOCATION, Condition.QUEUE_WAIT, threshold=HOUR),
    longer("GPUs held but idle", WARNING, ALLOCATION, Condition.IDLE_HELD, threshold=HOUR),
)


@write_transaction
def ensure_builtin_definitions() -> None:
    """Add those of the definitions that do not exist yet. Changes of administrators stay."""
    known = set(AlarmDefinition.objects.values_list("name", flat=True))
    for row in DEFINITIONS:
        if row["name"] not in known:
            AlarmDefinition.objects.create(is_builtin=True, **row)
