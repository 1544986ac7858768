"""Subjects and texts of mails to users."""

from __future__ import annotations

from datetime import timedelta

from appliance.allocations.models import RUNNING, Allocation
from appliance.notifications.models import NotificationKind

FOOTER = """
  busbar allocation show {id}

You get this message because you own the allocation. Choose which messages you get with:

  busbar notifications
"""


def compose(kind: NotificationKind, allocation: Allocation) -> tuple[str, str]:
    """Return subject and text. Names come from users, so they are on one line."""
    name = " ".join((allocation.name or str(allocation.pk)).split())
    subject, text = PARTS[kind](allocation, name)
    return f"Busbar: {subject}", text + FOOTER.format(id=allocation.pk)


def start(allocation: Allocation, name: str) -> tuple[str, str]:
    waited = (allocation.active_at or allocation.created_at) - allocation.created_at
    return (
        f"{name} has started",
        f"Your allocation {name} got its GPUs after {duration(waited)} in the queue.\n",
    )


def lifetime(allocation: Allocation, name: str) -> tuple[str, str]:
    if allocation.state not in RUNNING or allocation.active_at is None:
        return f"{name} has ended", f"The lifetime of your allocation {name} is over.\n"
    end = allocation.active_at + timedelta(seconds=allocation.lifetime_seconds or 0)
    return (
        f"{name} ends at {end:%H:%M} UTC",
        f"The lifetime of your allocation {name} ends at {end:%Y-%m-%d %H:%M} UTC. Its programs "
        "get SIGTERM then. Save what you need before.\n",
    )


def reclaim(allocation: Allocation, name: str) -> tuple[str, str]:
    reason = " ".join(allocation.end_reason.split()) or "no reason was given"
    if allocation.state in RUNNING and allocation.evict_at is None:
        return (
            f"{name} keeps its GPUs",
            f"Your allocation {name} keeps its GPUs: the announced eviction was withdrawn.\n",
        )
    if allocation.state in RUNNING and allocation.evict_at is not None:
        at = f"{allocation.evict_at:%Y-%m-%d %H:%M:%S} UTC"
        return (
            f"{name} loses its GPUs at {allocation.evict_at:%H:%M} UTC",
            f"Your allocation {name} loses its GPUs at {at}: {reason}.\n",
        )
    return f"{name} lost its GPUs", f"Your allocation {name} lost its GPUs: {reason}.\n"


PARTS = {
    NotificationKind.START: start,
    NotificationKind.LIFETIME: lifetime,
    NotificationKind.RECLAIM: reclaim,
}


def duration(time: timedelta) -> str:
    minutes, seconds = divmod(int(time.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{seconds} s"
