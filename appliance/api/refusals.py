"""Refused requests, counted in memory until the controller writes them as audit records.

A refusal has no transaction of its own change, and a client may repeat it without end. So each
process counts by minute, address, actor and code, and hands the counts over every second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MAX_KEYS = 1000
"""Different addresses, actors and codes between two `drain`. Others count without address."""
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

_counts: dict[Key, Counted] = {}
_lock = threading.Lock()


def note(refusals: Iterable[Refusal]) -> None:
    """Count refusals that happened now. Thread-safe; does not block."""
    minute = int(time.time()) // MINUTE_SECONDS * MINUTE_SECONDS
    add(Counted(refusal, minute, 1) for refusal in refusals)


def add(counted: Iterable[Counted]) -> None:
    """Add counts, also those of another process."""
    with _lock:
        for one in counted:
            refusal = one.refusal
            key = (one.minute, refusal.address, refusal.actor, refusal.code)
            if key not in _counts and len(_counts) >= MAX_KEYS:
                refusal = Refusal(actor=OTHERS, address="", code=refusal.code)
                key = (one.minute, "", OTHERS, refusal.code)
            known = _counts.get(key)
            if known is None:
                _counts[key] = Counted(refusal, one.minute, one.count)
            else:
                known.count += one.count


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
