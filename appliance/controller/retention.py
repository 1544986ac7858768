"""Retention: deletion of expired rows in small batches (ADR 50).

The order of the rules matters: rows that refer to others go first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol
from uuid import UUID

from django.db.models import Exists, Model, OuterRef, QuerySet
from django.utils import timezone

from appliance.accounts.models import ApiToken, IdempotencyKey
from appliance.activity.models import Event, Task, TaskLine
from appliance.alarms.models import Alarm, AlarmAction, AlarmEntry
from appliance.allocations.models import Allocation, Partition, Session
from appliance.audit import chain, export
from appliance.audit.models import AuditRecord
from appliance.db.identifiers import first_id_at
from appliance.db.prepared import Delete
from appliance.db.writer import background_pool, run_in_thread, write_transaction
from appliance.fleet.models import EnrolmentToken, NodeCertificate
from appliance.notifications.models import Notification
from appliance.runtime import background
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import RetentionSettings

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0
BATCH_ROWS = 100
"""Rows of one commit: the writer thread is held for some milliseconds."""
BATCH_PAUSE_SECONDS = 0.05


class Deletion(Protocol):
    """Deletes the first rows before a time, or before an id, and returns their number."""

    def __call__(self, *, before: datetime | UUID) -> int: ...


@dataclass(frozen=True)
class Rule:
    """Deletion of the rows of one table that ended before a time."""

    model: type[Model]
    setting: str
    """Name of the setting with the days after which a row is deleted."""
    delete: Deletion
    by_id: bool = False
    """Compare with the primary key, whose order is the order of creation."""

    def delete_batch(self, now: datetime) -> int:
        """Delete up to BATCH_ROWS rows in one transaction and return their number."""
        before = now - timedelta(days=getattr(current(RetentionSettings), self.setting))
        limit = first_id_at(before) if self.by_id else before
        return write_transaction(lambda: self.delete(before=limit))()


def batches(model: type[Model], expired: Callable[[datetime | UUID], QuerySet[Model]]) -> Delete:
    """Return the prepared deletion of the first rows of a query set."""
    return Delete(
        lambda before: model._default_manager.filter(
            pk__in=expired(before).values("pk")[:BATCH_ROWS]
        )
    )


def without(rows: QuerySet[Model], related: type[Model], column: str) -> QuerySet[Model]:
    """Exclude rows to which a row of the related table refers."""
    references = related._default_manager.filter(**{column: OuterRef("pk")})
    return rows.filter(~Exists(references))


def expired_tasks(before: datetime | UUID) -> QuerySet[Model]:
    """Return ended tasks without a log and without parts: those are deleted before."""
    ended = without(Task.objects.filter(ended_at__lt=before), TaskLine, "task_id")
    return without(ended, Task, "parent_id")


def expired_alarms(before: datetime | UUID) -> QuerySet[Model]:
    """Return cleared alarms without history and actions: those are deleted before."""
    cleared = without(Alarm.objects.filter(cleared_at__lt=before), AlarmEntry, "alarm_id")
    return without(cleared, AlarmAction, "alarm_id")


def expired_allocations(before: datetime | UUID) -> QuerySet[Model]:
    ended = without(Allocation.objects.filter(ended_at__lt=before), Session, "allocation_id")
    return without(ended, Partition, "allocation_id")


def remove_audit_records(*, before: datetime | UUID) -> int:
    """Remove the beginning of the chain. Records that a configured export lacks stay."""
    assert isinstance(before, datetime)
    return chain.remove_before(before, BATCH_ROWS, only_exported=export.is_configured())


RULES: Sequence[Rule] = (
    Rule(AuditRecord, "audit_days", remove_audit_records),
    Rule(
        IdempotencyKey,
        "idempotency_keys_days",
        batches(IdempotencyKey, lambda before: IdempotencyKey.objects.filter(pk__lt=before)),
        by_id=True,
    ),
    Rule(
        Notification,
        "events_days",
        batches(Notification, lambda before: Notification.objects.filter(pk__lt=before)),
        by_id=True,
    ),
    Rule(
        AlarmAction,
        "events_days",
        batches(
            AlarmAction, lambda before: AlarmAction.objects.filter(alarm__cleared_at__lt=before)
        ),
    ),
    Rule(
        AlarmEntry,
        "events_days",
        batches(AlarmEntry, lambda before: AlarmEntry.objects.filter(alarm__cleared_at__lt=before)),
    ),
    Rule(Alarm, "events_days", batches(Alarm, expired_alarms)),
    Rule(
        Event,
        "events_days",
        batches(Event, lambda before: Event.objects.filter(pk__lt=before)),
        by_id=True,
    ),
    Rule(
        TaskLine,
        "tasks_days",
        batches(TaskLine, lambda before: TaskLine.objects.filter(task__ended_at__lt=before)),
    ),
    Rule(Task, "tasks_days", batches(Task, expired_tasks)),
    Rule(
        Session,
        "sessions_days",
        batches(Session, lambda before: Session.objects.filter(closed_at__lt=before)),
    ),
    Rule(  # also those that no node has closed
        Session,
        "allocations_days",
        batches(Session, lambda before: Session.objects.filter(allocation__ended_at__lt=before)),
    ),
    Rule(Allocation, "allocations_days", batches(Allocation, expired_allocations)),
    Rule(
        NodeCertificate,
        "certificates_days",
        batches(
            NodeCertificate, lambda before: NodeCertificate.objects.filter(not_after__lt=before)
        ),
    ),
    Rule(
        EnrolmentToken,
        "tokens_days",
        batches(
            EnrolmentToken, lambda before: EnrolmentToken.objects.filter(expires_at__lt=before)
        ),
    ),
    Rule(
        ApiToken,
        "tokens_days",
        batches(ApiToken, lambda before: ApiToken.objects.filter(expires_at__lt=before)),
    ),
)


async def delete_expired_rows() -> None:
    """Delete all expired rows. A rule that fails does not keep the rows of the others."""
    for rule in RULES:
        try:
            await follow(rule)
        except Exception:
            log.exception(
                "retention: failed, retrying in %.0f s: table=%s",
                INTERVAL_SECONDS,
                rule.model.__name__,
            )
            background.remember_failure(background.name_of(delete_expired_rows))


async def follow(rule: Rule) -> None:
    """Delete the rows of a rule, with a pause after each batch so that changes get their turn."""
    total = 0
    while deleted := await run_in_thread(
        partial(rule.delete_batch, timezone.now()), background_pool
    ):
        total += deleted
        await asyncio.sleep(BATCH_PAUSE_SECONDS)
    if total:
        log.info("retention: expired rows deleted: table=%s rows=%d", rule.model.__name__, total)


async def run_retention() -> None:
    """Delete expired rows every minute until cancelled."""
    while True:
        await delete_expired_rows()
        await asyncio.sleep(INTERVAL_SECONDS)
