"""Conditions on metrics of GPUs, from the newest samples of all series.

The process that keeps the samples compares them in one pass and returns only the GPUs beyond the
threshold, so that 8,000 GPUs without an alarm cost one message and no query. If all of them are
beyond it, the query reads their ids only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from uuid import UUID

from appliance.alarms.conditions import ANY_XID, XID_CLASSES, XID_METRIC
from appliance.alarms.findings import (
    Finding,
    Findings,
    Subject,
    node_of_gpus,
    subjects_of,
)
from appliance.alarms.models import AlarmDefinition, Comparison
from appliance.telemetry import reachability, series
from nodes.protocol.metrics import METRICS

UNITS = {m.name: m.unit for m in METRICS}


class NoSamplesError(Exception):
    """The process that keeps the samples did not reply; alarms stay as they are."""


def find_metric(definition: AlarmDefinition) -> Findings:
    """Return the GPUs whose newest value is beyond the threshold, or beyond the one to clear.

    Values of an unreachable node are old: they raise no alarm, and clear none.
    """
    above = definition.comparison == Comparison.ABOVE
    threshold = definition.threshold or 0.0
    outer = threshold if definition.clear_threshold is None else definition.clear_threshold
    values = beyond(definition.metric, outer, above=above)
    nodes = node_of_gpus(definition, values.keys())
    lost = reachability.unreachable(nodes.values())

    def raises(gpu_id: UUID, node_id: UUID) -> bool:
        value = values[gpu_id]
        return (value > threshold if above else value < threshold) and node_id not in lost

    def message(subject: Subject) -> str:
        return describe(definition, subject, values[subject.id])

    return Findings(
        {gpu_id: raises(gpu_id, node_id) for gpu_id, node_id in nodes.items()},
        partial(describe_gpus, definition, message),
    )


def find_xid(definition: AlarmDefinition) -> Findings:
    values = beyond(XID_METRIC, 0.0, above=True)
    if definition.xid_class != ANY_XID:
        wanted = XID_CLASSES[definition.xid_class]
        values = {gpu_id: xid for gpu_id, xid in values.items() if xid in wanted}

    def message(subject: Subject) -> str:
        xid = values[subject.id]
        return f"GPU {subject.name} reported XID {xid:.0f}, class {class_of(xid)}."

    nodes = node_of_gpus(definition, values.keys())
    return Findings(dict.fromkeys(nodes, True), partial(describe_gpus, definition, message))


def describe_gpus(
    definition: AlarmDefinition, message: Callable[[Subject], str], ids: Collection[UUID]
) -> list[Finding]:
    return [Finding(s, message(s)) for s in subjects_of(definition, ids).values()]


def class_of(xid: float) -> str:
    return next((name for name, xids in XID_CLASSES.items() if xid in xids), "unknown")


def beyond(metric: str, threshold: float, *, above: bool) -> Mapping[UUID, float]:
    values = series.values_beyond(metric, threshold, above=above)
    if values is None:
        raise NoSamplesError
    return values


def describe(definition: AlarmDefinition, subject: Subject, value: float) -> str:
    limit = definition.threshold or 0.0
    return (
        f"GPU {subject.name}: {definition.metric} is {shown(definition.metric, value)}, "
        f"{definition.comparison} {shown(definition.metric, limit)}."
    )


def shown(metric: str, value: float) -> str:
    unit = UNITS.get(metric, "")
    if unit == "bytes":
        return f"{value / (1 << 20):.0f} MiB"
    number = f"{value:.0f}" if math.isclose(value, round(value)) else f"{value:.1f}"
    return f"{number} {unit}".strip()
