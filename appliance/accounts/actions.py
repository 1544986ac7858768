"""Kinds of objects, and actions on them: which ones a user may take now, and why not.

Each app registers its kinds and actions. The views declare the privilege of the action, and the
services raise the same refusals, so what is shown is what happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import Http404

from appliance.accounts.authorization import SELF, denied, privilege_refusal
from appliance.accounts.models import User
from appliance.accounts.permissions import can_somewhere, inventory_places
from appliance.accounts.places import Place
from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import uuid_or_invalid

M = TypeVar("M", bound=Model)
Refusals = Sequence[ApplianceError | None]
"""For each row, in order, the error of the action, or None if it would succeed."""
BatchRule = Callable[[User, Sequence[M]], Refusals]
"""Decides about many rows. The number of its queries does not depend on their number."""


def permit(user: User, rows: Sequence[Any]) -> Refusals:
    """Permit the action on each row; its privilege is all that it needs."""
    return [None] * len(rows)


def by_row(
    rule: Callable[[User, M], ApplianceError | None],
) -> BatchRule[M]:
    """Return a rule for many rows from one for a single row, which makes no query."""
    return lambda user, rows: [rule(user, row) for row in rows]


@dataclass(frozen=True)
class Action(Generic[M]):
    name: str
    privilege: str
    """Also the one that the view declares."""
    rule: BatchRule[M] = permit
    places: Callable[[M], Iterable[UUID | None]] | None = None
    """Returns the places in the inventory where a role permits the action. None: no place."""

    def refusals(self, user: User, rows: Sequence[M]) -> Refusals:
        in_inventory = self.places is not None
        nowhere = privilege_refusal(user, self.privilege, in_inventory=in_inventory)
        if nowhere is not None:
            return [nowhere] * len(rows)
        if self.places is None or self.privilege == SELF or can_somewhere(user, self.privilege):
            return self.rule(user, rows)
        held = inventory_places(user, self.privilege)
        permitted = [not held.isdisjoint(self.places(row)) for row in rows]
        found = iter(self.rule(user, list(compress(rows, permitted))))
        return [next(found) if may else denied(self.privilege) for may in permitted]

    def require(self, user: User, row: M) -> None:
        """Raise the error of the action on the row, if there is one."""
        for error in self.refusals(user, [row]):
            raise_refusal(error)


@dataclass(frozen=True)
class Kind(Generic[M]):
    """Objects named `NAME/ID`, whose detail is `GET /api/v1/NAME/ID`."""

    rows: Callable[[User], QuerySet[M]]
    """Returns the rows that the user may view."""
    place: Callable[[M], Place] | None = None
    """Returns the project and places that decide about privileges at an object. None for kinds
    without any."""
    find: Callable[[str], M | None] | None = None
    """Returns the object with this name, at which role bindings hold; None for other kinds."""
    actions: list[Action[M]] = field(default_factory=list)

    def add(self, action: Action[M]) -> Action[M]:
        """Register an action and return it."""
        self.actions.append(action)
        self.actions.sort(key=lambda a: a.name)
        return action

    def actions_of(self, user: User, row: M) -> list[dict[str, Any]]:
        """Return the actions of an object for its detail."""
        return self.actions_of_rows(user, [row])[row.pk]

    def actions_of_rows(self, user: User, rows: Sequence[M]) -> dict[UUID, list[dict[str, Any]]]:
        found: dict[UUID, list[dict[str, Any]]] = {row.pk: [] for row in rows}
        for action in self.actions:
            for row, error in zip(rows, action.refusals(user, rows), strict=True):
                reason = error.detail if error else None
                found[row.pk].append({"name": action.name, "allowed": not error, "reason": reason})
        return found


_kinds: dict[str, Kind[Any]] = {}


def register_kind(
    name: str,
    rows: Callable[[User], QuerySet[M]],
    place: Callable[[M], Place] | None = None,
    find: Callable[[str], M | None] | None = None,
) -> Kind[M]:
    """Register a kind and return it. Apps add actions to it, also those above its own app."""
    kind = _kinds[name] = Kind(rows, place, find)
    return kind


def kinds() -> list[str]:
    return sorted(_kinds)


def actions_at(user: User, places: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the actions of the objects at these places that the user may view.

    The number of queries depends on the kinds only. Raises ApplianceError INVALID for a malformed
    place.
    """
    wanted: dict[str, dict[UUID, str]] = {}
    for place in places:
        kind, _, object_id = place.partition("/")
        if kind not in _kinds:
            raise ApplianceError(
                Code.INVALID, f"objects must be KIND/ID; the kinds are {', '.join(kinds())}."
            )
        wanted.setdefault(kind, {})[uuid_or_invalid("The id in objects", object_id)] = place
    found = {}
    for kind, by_id in wanted.items():
        rows = list(_kinds[kind].rows(user).filter(pk__in=list(by_id)))
        for pk, actions in _kinds[kind].actions_of_rows(user, rows).items():
            found[by_id[pk]] = actions
    return found


def place_at(viewer: User, name: str) -> Place:
    """Return the place of the object named `KIND/ID`; of the appliance for an empty name.

    Raises ApplianceError INVALID for a malformed name, and Http404 if the user may not view the
    object or it does not exist.
    """
    if not name:
        return Place()
    places = {name: (kind, kind.place) for name, kind in _kinds.items() if kind.place}
    wanted, _, object_id = name.partition("/")
    if wanted not in places:
        raise ApplianceError(
            Code.INVALID, f"object must be KIND/ID; the kinds are {', '.join(sorted(places))}."
        )
    kind, place_of = places[wanted]
    row = kind.rows(viewer).filter(pk=uuid_or_invalid("The id in object", object_id)).first()
    if row is None:
        raise Http404
    return place_of(row)


def find_in_inventory(column: str, name: str) -> Model:
    """Return the site, node, GPU or pool. Raises ApplianceError NOT_FOUND."""
    find = _kinds[f"{column}s"].find
    row: Model | None = find(name) if find else None
    if row is None:
        noun = "GPU" if column == "gpu" else column.capitalize()
        raise ApplianceError(Code.NOT_FOUND, f'{noun} "{name}" not found.')
    return row


def raise_refusal(error: ApplianceError | None) -> None:
    """Raise the error of a rule, if there is one."""
    if error is not None:
        raise error
