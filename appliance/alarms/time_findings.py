"""Conditions on times: events in a period, certificates that end, waits and idle allocations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from cryptography import x509
from django.conf import settings
from django.db.models import Count, Max, Q
from django.utils import timezone

from appliance.activity.models import Event
from appliance.alarms.findings import (
    APPLIANCE,
    Finding,
    allocations_of,
    subject_of,
    subjects_of,
)
from appliance.alarms.models import AlarmDefinition, ObjectKind
from appliance.allocations import idleness
from appliance.allocations.models import AllocationState
from appliance.db.change_log import NO_ID
from appliance.db.identifiers import first_id_at
from appliance.fleet.models import NodeCertificate

Found = dict[UUID, Finding]
CERTIFICATES = {"server.pem": "certificate of the HTTPS and agent ports", "ca.pem": "CA"}


def find_events(definition: AlarmDefinition) -> Found:
    """Count the events of the period by object, with one query."""
    since = first_id_at(timezone.now() - timedelta(seconds=definition.window_seconds))
    least = int(definition.threshold or 1)
    events = Event.objects.filter(pk__gt=since, kind=definition.event_kind)
    if definition.object_kind == ObjectKind.APPLIANCE:
        counts = {NO_ID: count} if (count := events.count()) >= least else {}
    else:
        grouped = events.values_list("object_id").annotate(count=Count("pk"))
        rows = grouped.filter(count__gte=least).values_list("object_id", "count")
        counts = {object_id: count for object_id, count in rows if object_id is not None}
    minutes = max(1, definition.window_seconds // 60)
    return {
        subject.id: Finding(
            subject,
            f"{counts[subject.id]} x {definition.event_kind} within {minutes} min: {subject.name}.",
        )
        for subject in subjects_of(definition, counts.keys()).values()
    }


def find_certificates(definition: AlarmDefinition) -> Found:
    """Return what has a certificate that ends within the threshold and was not renewed."""
    left = timedelta(seconds=definition.threshold or 0)
    if definition.object_kind == ObjectKind.APPLIANCE:
        return appliance_certificates(left)
    ends = dict(
        NodeCertificate.objects.in_force()
        .values_list("node_id")
        .annotate(end=Max("not_after"))
        .filter(end__lt=timezone.now() + left)
        .values_list("node_id", "end")
    )
    return {
        s.id: Finding(s, f"The certificate of node {s.name} ends at {moment(ends[s.id])}.")
        for s in subjects_of(definition, ends.keys()).values()
    }


def appliance_certificates(left: timedelta) -> Found:
    for name, text in CERTIFICATES.items():
        end = end_of(settings.DATA_DIR / name)
        if end is not None and end < datetime.now(UTC) + left:
            return {APPLIANCE.id: Finding(APPLIANCE, f"The {text} ends at {moment(end)}.")}
    return {}


def end_of(pem: Path) -> datetime | None:
    """Return the end of the first certificate of a file, or None if there is none."""
    try:
        return x509.load_pem_x509_certificate(pem.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return None


def find_waits(definition: AlarmDefinition) -> Found:
    longest = definition.threshold or 0
    before = timezone.now() - timedelta(seconds=longest)
    where = Q(state=AllocationState.QUEUED, created_at__lt=before)
    subjects = [subject_of(row) for row in allocations_of(definition, where)]
    text = f"waits for more than {longest / 60:.0f} min"
    return {s.id: Finding(s, f"Allocation {s.name} {text}.") for s in subjects}


def find_idle(definition: AlarmDefinition) -> Found:
    """Return active allocations without a launch or copy. Their ids are compared in memory."""
    longest = definition.threshold or 0
    before = timezone.now() - timedelta(seconds=longest)
    where = Q(state=AllocationState.ACTIVE, active_at__lt=before)
    found = {}
    for row in allocations_of(definition, where):
        if idleness.idle_seconds(row.pk) > longest:
            s = subject_of(row)
            text = f"holds GPUs without work for more than {longest / 60:.0f} min"
            found[s.id] = Finding(s, f"Allocation {s.name} {text}.")
    return found


def moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
