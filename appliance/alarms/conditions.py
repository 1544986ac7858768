"""The parameters and object kinds of each condition, and the classes of XIDs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from appliance.alarms.models import AlarmDefinition, Condition, ObjectKind
from appliance.api.errors import ApplianceError, Code
from nodes.protocol.metrics import METRICS

NODE_STATES = (
    "unreachable",
    "locked",
    "enrolling",
    "cordoned",
    "draining",
    "maintenance",
    "not_applied",
)
"""`unreachable` and `locked` are found beside the state of the row; `not_applied` means that the
node has not applied its desired state."""
GPU_STATES = ("missing", "held", "duplicate", "mig")
APPLIANCE_STATES = ("disk_low", "disk_full", "backup_old", "work_failed")
ALLOCATION_STATES = ("suspended", "releasing", "evicting")
STATES: Mapping[str, tuple[str, ...]] = {
    ObjectKind.NODE: NODE_STATES,
    ObjectKind.GPU: GPU_STATES,
    ObjectKind.APPLIANCE: APPLIANCE_STATES,
    ObjectKind.ALLOCATION: ALLOCATION_STATES,
}
METRIC_NAMES = frozenset(m.name for m in METRICS)
XID_METRIC = "xid"
XID_CLASSES: Mapping[str, frozenset[int]] = {
    "memory": frozenset({48, 63, 64, 92, 94, 95, 140, 160, 161, 162}),
    "bus": frozenset({38, 74, 79, 110, 119, 120, 121, 143}),
    "engine": frozenset({8, 32, 39, 46, 61, 62, 69, 109, 136, 154}),
    "application": frozenset({11, 13, 31, 43, 44, 45, 68}),
}
"""XIDs by what they say about the GPU: memory, bus and driver link, engines, or only a program."""
ANY_XID = "any"


class Need(NamedTuple):
    """Fields that a condition uses, and the kinds of objects that it can be about."""

    fields: Collection[str]
    required: Collection[str]
    kinds: Collection[str]


ANY_KIND = tuple(ObjectKind.values)
NEEDS: Mapping[str, Need] = {
    Condition.STATE: Need({"states"}, {"states"}, ANY_KIND),
    Condition.METRIC: Need(
        {"metric", "comparison", "threshold", "clear_threshold"},
        {"metric", "threshold"},
        {ObjectKind.GPU},
    ),
    Condition.EVENT: Need(
        {"event_kind", "threshold", "window_seconds"}, {"event_kind", "window_seconds"}, ANY_KIND
    ),
    Condition.XID: Need({"xid_class"}, {"xid_class"}, {ObjectKind.GPU}),
    Condition.CERTIFICATE_AGE: Need(
        {"threshold"}, {"threshold"}, {ObjectKind.NODE, ObjectKind.APPLIANCE}
    ),
    Condition.QUEUE_WAIT: Need({"threshold"}, {"threshold"}, {ObjectKind.ALLOCATION}),
    Condition.IDLE_HELD: Need({"threshold"}, {"threshold"}, {ObjectKind.ALLOCATION}),
}
DEFAULTS: Mapping[str, object] = {
    "states": [],
    "metric": "",
    "comparison": "above",
    "threshold": None,
    "clear_threshold": None,
    "event_kind": "",
    "xid_class": "",
    "window_seconds": 0,
}
"""Values of fields that a condition does not use."""


def require_valid(row: AlarmDefinition) -> None:
    """Raise ApplianceError INVALID for fields that do not fit the condition or the kind."""
    need = NEEDS[row.condition]
    if row.object_kind not in need.kinds:
        raise invalid(
            f"Condition {row.condition} is about {', '.join(sorted(need.kinds))}, not "
            f"{row.object_kind}."
        )
    for name, default in DEFAULTS.items():
        value = getattr(row, name)
        if name in need.required and value == default:
            raise invalid(f"Condition {row.condition} needs {name}.")
        if name not in need.fields and value != default:
            raise invalid(f"Condition {row.condition} has no {name}.")
    require_known(row)
    require_place(row)


def require_known(row: AlarmDefinition) -> None:
    known = STATES[row.object_kind]
    if unknown := [s for s in row.states if s not in known]:
        raise invalid(f"States of {row.object_kind}: {', '.join(known)} (was {unknown[0]}).")
    if row.metric and row.metric not in METRIC_NAMES:
        raise invalid(f"Unknown metric {row.metric}. Metrics: {', '.join(sorted(METRIC_NAMES))}.")
    if row.xid_class and row.xid_class not in (*XID_CLASSES, ANY_XID):
        raise invalid(f"xid_class must be one of {', '.join((*XID_CLASSES, ANY_XID))}.")
    if row.clear_threshold is not None and row.threshold is not None:
        wrong_side = (row.clear_threshold > row.threshold) == (row.comparison == "above")
        if wrong_side and row.clear_threshold != row.threshold:
            raise invalid(
                f"clear_threshold must be on the other side of threshold: an alarm that is raised "
                f"{row.comparison} {row.threshold:g} would clear before."
            )


def require_place(row: AlarmDefinition) -> None:
    """Refuse places without objects of the kind below them."""
    places = {
        ObjectKind.APPLIANCE: (),
        ObjectKind.NODE: ("site", "node"),
        ObjectKind.GPU: ("site", "node", "gpu", "pool"),
        ObjectKind.ALLOCATION: ("pool",),
    }[ObjectKind(row.object_kind)]
    for place in ("site", "node", "gpu", "pool"):
        if getattr(row, f"{place}_id") is not None and place not in places:
            raise invalid(f"A {place} has no {row.object_kind} below it to which alarms belong.")
    if row.enters_maintenance and row.object_kind not in (ObjectKind.NODE, ObjectKind.GPU):
        raise invalid("Only alarms of nodes and GPUs can set a node into maintenance.")


def invalid(detail: str) -> ApplianceError:
    return ApplianceError(Code.INVALID, detail)
