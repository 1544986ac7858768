"""Recording of changes for the audit. Call inside the transaction that makes the change.

A service records its operation once, whatever else changes with it: each record is one insert.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import Model

from appliance.api import refusals
from appliance.audit.fields import Values, json_value, kind_of, recorded_fields, values_of
from appliance.audit.models import AuditRecord
from appliance.db.origin import Origin, current
from appliance.db.prepared import insert

SYSTEM = Origin(actor=refusals.SYSTEM)


def record_created(row: Model) -> None:
    """Record that a row was created."""
    record(row, "created", {}, recorded_fields(row))


def record_changed(row: Model, before: Values) -> None:
    """Record the fields that differ from `before`, the values of the row before the change.

    The version is among them, unless the row in memory still has the old one.
    """
    after = values_of(row)
    changed = [name for name in after if name in before and before[name] != after[name]]
    record(row, "changed", {n: before[n] for n in changed}, {n: after[n] for n in changed})


def record_deleted(row: Model) -> None:
    """Record that a row was or will be deleted. `row` still has its primary key."""
    record(row, "deleted", recorded_fields(row), {})


def record(row: Model, verb: str, before: Values, after: Values) -> None:
    """Record an operation on a row. `verb` names it if no request causes it."""
    kind, origin = kind_of(row), current() or SYSTEM
    insert(
        AuditRecord(
            actor=origin.actor or SYSTEM.actor,
            token_id=origin.token_id,
            token_name=origin.token_name,
            address=origin.address[:64],
            action=origin.action or f"{kind.kind}.{verb}",
            object_kind=kind.kind,
            object_id=row.pk if isinstance(row.pk, UUID) else None,
            object_name=str(json_value(getattr(row, kind.name)) if kind.name else "")[:300],
            project_id=getattr(row, kind.project) if kind.project else None,
            before=before,
            after=after,
            request_id=origin.request_id,
        )
    )
