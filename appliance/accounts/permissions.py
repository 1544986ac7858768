"""What users may do, by the grants of their role bindings."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from appliance.accounts.bindings import Grant, Held, InventoryGrant, grants_by_user, held_by_user

if TYPE_CHECKING:
    from appliance.accounts.models import User

Privileges = tuple[frozenset[str], dict[UUID, frozenset[str]]]
"""Privileges on the whole appliance, and additional privileges by project."""


def enable_grant_cache(user: User) -> None:
    """Let `grants` cache its result on this instance, which must belong to one request."""
    user.__dict__["_caches_grants"] = True


def limit_to_token(
    user: User, scopes: Collection[str], *, token_id: UUID, is_limited: bool
) -> None:
    """Let `grants` leave out all but these privileges on this instance. Empty: no limit.

    The instance belongs to one token. Call it before the first `grants`.
    """
    limits = {"_token_id": token_id, "_scopes": frozenset(scopes)}
    user.__dict__.update(limits, _has_limited_token=is_limited)


def token_id_of(user: User) -> UUID | None:
    """Return the id of the token that authenticated the user, if one did."""
    found: UUID | None = user.__dict__.get("_token_id")
    return found


def has_limited_token(user: User) -> bool:
    """Return whether the token that authenticated the user has scopes or networks."""
    return bool(user.__dict__.get("_has_limited_token"))


def grants(user: User) -> list[Grant]:
    """Return the grants of the user, within the scopes of the token that authenticated them.

    Those in the inventory are not among them (`inventory_places`).
    """
    return held(user).grants


def held(user: User) -> Held:
    """Return what the user holds in both trees. Cached on the user of a request.

    Without a required second factor it is nothing (`second_factor_policy`).
    """
    found: Held | None = user.__dict__.get("_held")
    if user.__dict__.get("lacks_second_factor"):
        return Held([], [])
    if found is None:
        found = held_by_user({user.pk})[user.pk]
        found = limited_to(found, user.__dict__.get("_scopes", ()))
        if "_caches_grants" in user.__dict__:
            user.__dict__["_held"] = found
    return found


def digest_of_privileges(user: User) -> str:
    """Return a digest that changes with what the user may do anywhere."""
    found = held(user)
    lines = {f"{place} {name}" for names, place in found.grants for name in names}
    lines |= {f"at {place} {name}" for names, place in found.inventory for name in names}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def limited_to(found: Held, scopes: Collection[str]) -> Held:
    """Return what a token with these scopes may use; all if there are none."""
    if not scopes:
        return found
    permitted = frozenset(scopes)
    return Held(
        [Grant(g.privileges & permitted, g.project_id) for g in found.grants],
        [InventoryGrant(g.privileges & permitted, g.place_id) for g in found.inventory],
    )


def inventory_places(user: User, privilege: str) -> frozenset[UUID]:
    """Return the sites, nodes, GPUs and pools at which bindings grant the privilege."""
    return frozenset(g.place_id for g in held(user).inventory if privilege in g.privileges)


def can_at(user: User, privilege: str, places: Iterable[UUID | None]) -> bool:
    """Return whether the user has the privilege on the appliance or at one of these places.

    The places of an object are the object itself and those above it in the inventory.
    """
    return can(user, privilege, None) or not inventory_places(user, privilege).isdisjoint(places)


def can(user: User, privilege: str, project_id: UUID | None) -> bool:
    """Return whether a role of the user grants the privilege, appliance-wide or in the project.

    None stands for objects without a project: only appliance-wide roles count.
    """
    return any(
        privilege in grant.privileges
        for grant in grants(user)
        if grant.project_id is None or grant.project_id == project_id
    )


def can_somewhere(user: User, privilege: str) -> bool:
    """Return whether a role of the user grants the privilege, appliance-wide or in any project.

    Suffices for operations that check the project of their object as well.
    """
    return any(privilege in grant.privileges for grant in grants(user))


def has_scope(user: User, privilege: str) -> bool:
    """Return whether the scopes of the token that authenticated the user permit a privilege."""
    scopes: frozenset[str] = user.__dict__.get("_scopes", frozenset())
    return not scopes or privilege in scopes


def privileges_of(user: User) -> Privileges:
    return combined(grants(user))


def privileges_by_user(user_ids: Collection[UUID]) -> dict[UUID, Privileges]:
    """Return the privileges of each user. The number of queries does not depend on the users."""
    return {user_id: combined(found) for user_id, found in grants_by_user(user_ids).items()}


def combined(found: Collection[Grant]) -> Privileges:
    appliance_wide: set[str] = set()
    by_project: dict[UUID, set[str]] = {}
    for privileges, project_id in found:
        if project_id is None:
            appliance_wide |= privileges
        else:
            by_project.setdefault(project_id, set()).update(privileges)
    return frozenset(appliance_wide), {p: frozenset(names) for p, names in by_project.items()}


def projects_with(user: User, privilege: str) -> list[UUID] | None:
    """Return the projects in which the user has the privilege, or None for all projects."""
    if can(user, privilege, None):
        return None
    return sorted(
        {
            grant.project_id
            for grant in grants(user)
            if grant.project_id is not None and privilege in grant.privileges
        }
    )
