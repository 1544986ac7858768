"""Refused requests, counted in memory until the controller writes them as audit records.

A refusal has no transaction of its own change, and a client may repeat it without end. So each
process counts by minute, address, actor and code, and hands the counts over every second. The
number of records of a minute is limited.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MAX_KEYS = 1000
"""Different addresses, actors and codes of a minute. Others count without address."""
MAX_KEYS_BY_ADDRESS = 20
"""Of these from one address, which can invent users. Others count without actor."""
MAX_MINUTES = 2
"""Minutes of which keys are known: counts of another process may arrive in the next minute."""
MINUTE_SECONDS = 60
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused request. Ids are texts, empty if there are none."""

    actor: str
    address: str
    code: str
    action: str = ""
    token_id: str = ""
    token_name: str = ""
    object_kind: str = ""
    object_id: str = ""
    request_id: str = ""


@dataclass(slots=True)
class Counted:
    """The first of equal refusals, the minute in seconds of Unix time, and their number."""

    refusal: Refusal
    minute: int
    count: int


Key = tuple[int, str, str, str]


class Minute:
    """The keys of one minute, so that strangers cannot make records without end."""

    def __init__(self) -> None:
        self.known: set[Key] = set()
        self.by_address: Counter[str] = Counter()

    def within_limits(self, refusal: Refusal, minute: int) -> tuple[Key, Refusal]:
        """Return the refusal and its key, without actor or address if there are too many."""
        key = (minute, refusal.address, refusal.actor, refusal.code)
        if key not in self.known and self.by_address[refusal.address] >= MAX_KEYS_BY_ADDRESS:
            refusal = Refusal(actor=OTHERS, address=refusal.address, code=refusal.code)
            key = (minute, refusal.address, OTHERS, refusal.code)
        if key not in self.known and len(self.known) >= MAX_KEYS:
            refusal = Refusal(actor=OTHERS, address="", code=refusal.code)
            key = (minute, "", OTHERS, refusal.code)
        if key not in self.known:
            self.known.add(key)
            self.by_address[refusal.address] += 1
        return key, refusal


_counts: dict[Key, Counted] = {}
_minutes: dict[int, Minute] = {}
_lock = threading.Lock()


def note(refusals: Iterable[Refusal]) -> None:
    """Count refusals that happened now. Thread-safe; does not block."""
    minute = int(time.time()) // MINUTE_SECONDS * MINUTE_SECONDS
    add(Counted(refusal, minute, 1) for refusal in refusals)


def add(counted: Iterable[Counted]) -> None:
    """Add counts, also those of another process."""
    with _lock:
        for one in counted:
            minute = _minutes.setdefault(one.minute, Minute())
            while len(_minutes) > MAX_MINUTES:
                del _minutes[min(_minutes)]
            key, refusal = minute.within_limits(one.refusal, one.minute)
            if known := _counts.get(key):
                known.count += one.count
            else:
                _counts[key] = Counted(refusal, one.minute, one.count)


def drain() -> list[Counted]:
    """Return and forget the counts."""
    with _lock:
        found = list(_counts.values())
        _counts.clear()
    return found


def attempted_account(request_data: Any) -> str:
    """Return the username that a login named; empty if the request is malformed."""
    username = request_data.get("username") if isinstance(request_data, dict) else None
    return str(username or "").replace("\0", "")[:150]
