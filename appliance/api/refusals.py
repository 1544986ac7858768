"""Refused requests, counted in memory until the controller writes them as audit records.

A refusal has no transaction of its own change, and a client may repeat it without end. So each
process counts equal refusals of a minute and hands the counts over every second. Refusals of a
token are equal if address, actor, code, action and object are; others if address, actor and code
are. The number of records of a minute is limited. Strangers and accounts have limits of their own,
so that neither hides what the other one does.
"""

from __future__ import annotations

import sys
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from appliance.api.account_names import is_visible
from appliance.runtime.client_network import client_network

MAX_KEYS = 1000
"""Different refusals of a minute, of strangers and of accounts each. Others count without address
and actor."""
MAX_KEYS_BY_ADDRESS = 20
"""Of these from one address without a token, which can invent users. Others count without actor.
An IPv6 client counts with its network."""
MAX_READS_BY_ACCOUNT, MAX_CHANGES_BY_ACCOUNT = 20, 40
"""Of these of one account. Others count without address and object, up to MAX_ACTIONS_BY_ACCOUNT
actions, and then also without action. Reads are apart: many of them must not hide a change."""
MAX_ACTIONS_BY_ACCOUNT = 40
READ_SUFFIXES = ("_retrieve", "_list")
"""Of the actions that read."""
MAX_MINUTES = 2
"""Minutes of which keys are known: counts of another process may arrive in the next minute."""
MINUTE_SECONDS = 60
SYSTEM, OTHERS = "system", "others"
"""Actors of records of the appliance itself, and of refusals without an actor of their own."""
RESERVED = frozenset({SYSTEM, OTHERS})
MAX_ACCOUNT = 150
"""Characters of a username."""


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


Key = tuple[int, str, str, str, str, str]


def key_of(refusal: Refusal, minute: int) -> Key:
    what = (refusal.action, refusal.object_id) if refusal.token_id else ("", "")
    return (minute, refusal.address, refusal.actor, refusal.code, *what)


class Choice(NamedTuple):
    """A record for a refusal, and the number of different ones that its source may have."""

    refusal: Refusal
    source: tuple[str, ...]
    limit: int = sys.maxsize


@dataclass(slots=True)
class Keys:
    """The keys of one minute, and their number by what is limited."""

    known: set[Key] = field(default_factory=set)
    by_source: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def choose(self, minute: int, *choices: Choice) -> tuple[Key, Refusal]:
        """Return the first choice within the limits with its key, or else the last one."""
        for choice in choices:
            key = key_of(choice.refusal, minute)
            room = len(self.known) < MAX_KEYS and self.by_source[choice.source] < choice.limit
            if key in self.known or room or choice is choices[-1]:
                break
        if key not in self.known:
            self.known.add(key)
            self.by_source[choice.source] += 1
        return key, choice.refusal


class Minute:
    """The keys of one minute, so that no client makes records without end."""

    def __init__(self) -> None:
        self.of_strangers, self.of_accounts = Keys(), Keys()

    def within_limits(self, refusal: Refusal, minute: int) -> tuple[Key, Refusal]:
        """Return the refusal and its key, with less content if there are too many."""
        others = Choice(Refusal(actor=OTHERS, address="", code=refusal.code), (OTHERS,))
        if refusal.token_id:
            return self.of_accounts.choose(minute, *choices_of_account(refusal), others)
        network = client_network(refusal.address)
        without_actor = Refusal(actor=OTHERS, address=network, code=refusal.code)
        return self.of_strangers.choose(
            minute,
            Choice(refusal, (network,), MAX_KEYS_BY_ADDRESS),
            Choice(without_actor, (network, OTHERS)),
            others,
        )


def choices_of_account(refusal: Refusal) -> tuple[Choice, ...]:
    """Return records with less and less content for a refusal with a token."""
    is_read = refusal.action.endswith(READ_SUFFIXES)
    whole, limit = (
        ("reads", MAX_READS_BY_ACCOUNT) if is_read else ("changes", MAX_CHANGES_BY_ACCOUNT)
    )
    without_object = Refusal(
        actor=refusal.actor,
        address="",
        code=refusal.code,
        action=refusal.action,
        token_id=refusal.token_id,
        token_name=refusal.token_name,
    )
    return (
        Choice(refusal, (refusal.actor, whole), limit),
        Choice(without_object, (refusal.actor, whole, "actions"), MAX_ACTIONS_BY_ACCOUNT),
        Choice(replace(without_object, action=""), (refusal.actor, "code")),
    )


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
    return account_text(str(username or ""))


def account_text(username: str) -> str:
    """Return the text by which a record names the account that a stranger has invented.

    Terminals and databases get no character that they obey or refuse, and no record is of the
    appliance itself.
    """
    name = username[:MAX_ACCOUNT]
    text = name if is_visible(name) else "".join(map(printable, name))
    return f"user {text}"[:MAX_ACCOUNT] if is_reserved(text) else text[:MAX_ACCOUNT]


def printable(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def is_reserved(username: str) -> bool:
    """Return whether records and events name something else than an account like this."""
    return unicodedata.normalize("NFKC", username).casefold().strip() in RESERVED
