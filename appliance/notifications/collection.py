"""Find the events of which users are notified: of allocations, and ends of lifetimes.

Events are read some seconds after they were made, so that none with an older id commits later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.utils import timezone

from appliance.activity.events import SYSTEM
from appliance.activity.models import Event
from appliance.allocations.models import RUNNING, Allocation
from appliance.configuration import mail
from appliance.db.identifiers import first_id_at
from appliance.db.writer import TRANSIENT_ERRORS, run_each_in_savepoint, write_transaction
from appliance.notifications.models import (
    Notification,
    NotificationChoice,
    NotificationCursor,
    NotificationKind,
)
from appliance.notifications.texts import compose
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import NotificationSettings

EVENT_AGE_SECONDS = 3.0
OLDEST_EVENT_SECONDS = 3600.0
MAX_EVENTS = 200
"""Events of one transaction."""
STARTED, ANNOUNCED, ENDING = "allocation.active", "allocation.evicting", "allocation.releasing"
WITHDRAWN = "allocation.eviction_withdrawn"
LIFETIME_REASON = "lifetime of "


class Found(NamedTuple):
    kind: NotificationKind
    allocation: Allocation
    is_withdrawn: bool = False
    """The eviction that a mail of this kind has announced was withdrawn."""


class _State:
    """Whether a mail service was set up at the last call. Without one nothing is read."""

    was_set_up = True


def collect() -> int:
    """Store mails for what has happened since the last call. Return the number of events read.

    What happened before a mail service was set up, or over an hour ago, is passed over.
    """
    was_set_up, _State.was_set_up = _State.was_set_up, mail.is_set_up()
    return read_events(skips=not was_set_up) if _State.was_set_up else 0


@write_transaction
def read_events(*, skips: bool) -> int:
    now = timezone.now()
    until = first_id_at(now - timedelta(seconds=EVENT_AGE_SECONDS))
    cursor, created = NotificationCursor.objects.select_for_update().get_or_create(
        pk=1, defaults={"event_id": until}
    )
    if created or skips:
        NotificationCursor.objects.filter(pk=1).update(event_id=until)
        return 0
    since = max(cursor.event_id, first_id_at(now - timedelta(seconds=OLDEST_EVENT_SECONDS)))
    rows = Event.objects.filter(pk__gt=since, pk__lt=until).order_by("pk")
    events = list(rows[:MAX_EVENTS])
    store([*of_events(events), *ending_soon(now)])
    if events:
        NotificationCursor.objects.filter(pk=1).update(event_id=events[-1].pk)
    return len(events)


def of_events(events: Sequence[Event]) -> Iterator[Found]:
    wanted = [e for e in events if e.kind in (STARTED, ANNOUNCED, WITHDRAWN, ENDING)]
    ids = [e.object_id for e in wanted if e.object_id]
    rows = {a.pk: a for a in Allocation.objects.filter(pk__in=ids).select_related("owner")}
    for event in wanted:
        allocation = rows.get(event.object_id) if event.object_id else None
        if allocation is not None and (kind := kind_of(event, allocation)) is not None:
            yield Found(kind, allocation, event.kind == WITHDRAWN)


def kind_of(event: Event, allocation: Allocation) -> NotificationKind | None:
    """Return what an event is to its owner; None if they caused it or need not know."""
    if event.kind == STARTED:
        waited = (allocation.active_at or event.created_at) - allocation.created_at
        least = current(NotificationSettings).start_after_queued_seconds
        return NotificationKind.START if waited.total_seconds() >= least else None
    if event.kind == WITHDRAWN:
        return NotificationKind.RECLAIM
    if event.kind == ANNOUNCED and goes_on(allocation):
        return None  # withdrawn since
    if event.actor == allocation.owner.username:
        return None
    if event.kind == ENDING and event.actor != SYSTEM and allocation.evict_at is not None:
        return None  # announced before
    by_lifetime = allocation.end_reason.startswith(LIFETIME_REASON)
    return NotificationKind.LIFETIME if by_lifetime else NotificationKind.RECLAIM


def goes_on(allocation: Allocation) -> bool:
    return allocation.state in RUNNING and allocation.evict_at is None


def ending_soon(now: datetime) -> Iterator[Found]:
    """Yield active allocations whose lifetime ends within the notice of the settings."""
    notice = current(NotificationSettings).lifetime_notice_seconds
    told = Notification.objects.filter(kind=NotificationKind.LIFETIME).values("allocation_id")
    rows = Allocation.objects.filter(
        state__in=RUNNING, lifetime_seconds__gt=notice, active_at__isnull=False
    ).exclude(pk__in=told)
    for allocation in rows.select_related("owner"):
        assert allocation.active_at is not None and allocation.lifetime_seconds is not None
        rest = allocation.active_at + timedelta(seconds=allocation.lifetime_seconds) - now
        if rest.total_seconds() <= notice:
            yield Found(NotificationKind.LIFETIME, allocation)


def store(found: Sequence[Found]) -> None:
    """Store a mail for each owner who wants it and has an address.

    A withdrawal makes place for the mail about the next eviction. Its own mail contradicts one that
    the owner may have got.
    """
    enabled = current(NotificationSettings)
    owners = {f.allocation.owner_id for f in found}
    choices = NotificationChoice.objects.filter(user__in=owners)
    unwanted = {choice.user_id: choice.unwanted for choice in choices}

    def store_one(one: Found) -> None:
        kind, allocation, is_withdrawn = one
        owner = allocation.owner
        if is_withdrawn and not (take_back(one) and goes_on(allocation)):
            return
        if not getattr(enabled, kind.value) or kind in unwanted.get(owner.pk, ()):
            return
        if owner.email and owner.is_active:
            subject, text = compose(kind, allocation)
            content = {"user": owner, "subject": subject[:200], "text": text}
            if is_withdrawn:
                Notification.objects.create(kind=kind, **content)
            else:
                Notification.objects.get_or_create(
                    allocation_id=allocation.pk, kind=kind, defaults=content
                )

    run_each_in_savepoint(
        "notifications: mail of allocation",
        found,
        store_one,
        lambda f: f.allocation.pk,
        propagates=TRANSIENT_ERRORS,
    )


def take_back(found: Found) -> bool:
    """Delete the mail of this kind if it is not sent; another may follow. Return whether it was."""
    rows = Notification.objects.filter(allocation_id=found.allocation.pk, kind=found.kind)
    may_have_arrived = rows.filter(attempts__gt=0).exists()
    rows.filter(sent_at=None).delete()
    rows.update(allocation_id=None)
    return may_have_arrived
