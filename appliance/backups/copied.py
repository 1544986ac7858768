"""Copies of the databases, all of one moment."""

from __future__ import annotations

from typing import NamedTuple

from appliance.backups.manifest import Counts

KeyRow = tuple[str, str, str]
"""Current slot, next slot and phase of a kind of keys."""
KEY_ROWS = 'SELECT kind, "current", "next", "phase" FROM keys_keyset'


class Copied(NamedTuple):
    counts: dict[str, Counts]
    """Rows of each table, by file."""
    migrations: tuple[str, ...]
    """Applied ones, as app.name."""
    keys: dict[str, KeyRow]
    """Row of each kind of keys that was rotated."""
