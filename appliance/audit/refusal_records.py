"""Refused requests as audit records: one for equal refusals of a minute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import F

from appliance.api.refusals import Counted
from appliance.audit.models import AuditRecord, Outcome
from appliance.db.writer import write_transaction


@write_transaction
def write_refusals(counted: Sequence[Counted]) -> None:
    """Insert the records of these refusals, or add to the count of the record of their minute.

    A sealed record does not change; a count that comes too late gets a record of its own.
    """
    for one in counted:
        refusal, at = one.refusal, datetime.fromtimestamp(one.minute, UTC)
        same = AuditRecord.objects.filter(
            sequence=None,
            outcome=Outcome.REFUSED,
            created_at=at,
            actor=refusal.actor,
            address=refusal.address,
            code=refusal.code,
        )
        if refusal.token_id:
            same = same.filter(action=refusal.action, object_id=id_or_none(refusal.object_id))
        if not same.update(count=F("count") + one.count):
            insert_refusal(one, at)


def insert_refusal(one: Counted, at: datetime) -> None:
    refusal = one.refusal
    AuditRecord.objects.create(
        created_at=at,
        actor=refusal.actor,
        token_id=id_or_none(refusal.token_id),
        token_name=refusal.token_name,
        address=refusal.address,
        action=refusal.action,
        object_kind=refusal.object_kind,
        object_id=id_or_none(refusal.object_id),
        outcome=Outcome.REFUSED,
        code=refusal.code,
        count=one.count,
        request_id=id_or_none(refusal.request_id),
    )


def id_or_none(text: str) -> UUID | None:
    return UUID(text) if text else None
