"""Slots of keys: files that are never changed. The row of a kind names the ones in use.

A rotation writes a new file before a row names it and deletes an old one after no row does, so a
crash between any two steps loses no key.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from appliance.db.prepared import Select
from appliance.keys.models import KeyKind, KeySet, Phase

STATE = Select(
    lambda kind: KeySet.objects.filter(kind=kind).values_list("current", "next", "phase")
)


@dataclass(frozen=True)
class KeyState:
    current: str = ""
    next: str = ""
    phase: str = Phase.IDLE

    @property
    def accepted(self) -> tuple[str, ...]:
        """The slots of accepted keys. The first one signs."""
        if self.phase == Phase.IDLE:
            return (self.current,)
        if self.phase == Phase.USE:
            return self.next, self.current
        return self.current, self.next


def state_of(kind: KeyKind) -> KeyState:
    """Return the state of a kind. Reads the database."""
    return next((KeyState(*row) for row in STATE.rows(kind=kind.value)), KeyState())


def new_slot() -> str:
    return f"-{secrets.token_hex(4)}"
