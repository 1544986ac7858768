"""Registry of the objects that keep a pool from being deleted.

Apps above this one register a source for their objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from appliance.api.errors import ApplianceError, Code
from appliance.pools.models import Pool

Blockers = list[dict[str, object]]
Source = Callable[[Sequence[Pool]], Mapping[UUID, Blockers]]
"""Returns the blocking objects, as kind, id and name, of pools by their ids.

Reads the database with a number of queries that does not depend on the pools.
"""

_sources: list[Source] = []


def register(source: Source) -> None:
    _sources.append(source)


def blocker_refusals(pools: Sequence[Pool]) -> list[ApplianceError | None]:
    """Return the error IN_USE, with the blockers, for each pool that is in use."""
    found = [source(pools) for source in _sources]
    return [in_use(pool, [b for by_id in found for b in by_id.get(pool.pk, ())]) for pool in pools]


def in_use(pool: Pool, blockers: Blockers) -> ApplianceError | None:
    if not blockers:
        return None
    return ApplianceError(
        Code.IN_USE,
        f"Pool {pool.name} is in use. Move its GPUs and release its allocations first.",
        blockers=blockers,
    )
