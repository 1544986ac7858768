"""The project and the places of the inventory that decide about privileges at an object."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class Place(NamedTuple):
    project_id: UUID | None = None
    """Its project; None for an object of the appliance."""
    inventory: frozenset[UUID | None] = frozenset()
    """The object and those above it in the inventory, at which roles can be bound."""
    department_id: UUID | None = None
    """The department itself: its roles hold in all its projects."""
