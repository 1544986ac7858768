"""Registry of the objects that keep a pool from being deleted.

Apps above this one register a source for their objects.
"""

from __future__ import annotations

from collections.abc import Callable

from appliance.pools.models import Pool

Source = Callable[[Pool], list[dict[str, object]]]
"""Returns the blocking objects of a pool as kind, id and name. Reads the database."""

_sources: list[Source] = []


def register(source: Source) -> None:
    _sources.append(source)


def blockers_of(pool: Pool) -> list[dict[str, object]]:
    return [blocker for source in _sources for blocker in source(pool)]
