"""Objects at which privileges are asked for or roles are bound. Apps register their kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from django.db.models import Model

from appliance.accounts.models import User
from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import uuid_or_invalid


class Place(NamedTuple):
    """The project and the places of the inventory that decide about privileges at an object."""

    project_id: UUID | None = None
    """Its project; None for an object of the appliance."""
    inventory: frozenset[UUID | None] = frozenset()
    """The object and those above it in the inventory, at which roles can be bound."""
    department_id: UUID | None = None
    """The department itself: its roles hold in all its projects."""


PlaceOf = Callable[[User, UUID], Place]
"""Returns the place of an object.

Raises Http404 if the user may not view the object or it does not exist.
"""
Find = Callable[[str], Model | None]
"""Returns the object with this name, or None."""

_kinds: dict[str, PlaceOf] = {}
_inventory: dict[str, Find] = {}


def register_place(kind: str, place_of: PlaceOf) -> None:
    _kinds[kind] = place_of


def register_inventory(column: str, find: Find) -> None:
    """Register how role bindings find the object of this column of theirs by its name."""
    _inventory[column] = find


def place_at(viewer: User, name: str) -> Place:
    """Return the place of the object named `KIND/ID`; of the appliance for an empty name.

    Raises ApplianceError INVALID for a malformed name, and Http404 as `PlaceOf` does.
    """
    if not name:
        return Place()
    kind, _, object_id = name.partition("/")
    if kind not in _kinds:
        raise ApplianceError(
            Code.INVALID, f"object must be KIND/ID; the kinds are {', '.join(sorted(_kinds))}."
        )
    return _kinds[kind](viewer, uuid_or_invalid("The id in object", object_id))


def find_in_inventory(column: str, name: str) -> Model:
    """Return the site, node, GPU or pool. Raises ApplianceError NOT_FOUND."""
    row = _inventory[column](name)
    if row is None:
        noun = "GPU" if column == "gpu" else column.capitalize()
        raise ApplianceError(Code.NOT_FOUND, f'{noun} "{name}" not found.')
    return row
