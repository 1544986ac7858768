"""What each role may do. Deny by default."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING
from uuid import UUID

from appliance.accounts.models import Role, RoleBinding

if TYPE_CHECKING:
    from appliance.accounts.models import User

VIEW = {"inventory.view", "pools.view", "allocations.view", "activity.view", "account.self"}
USE = VIEW | {"allocations.create", "allocations.use"}
OPERATE = USE | {"inventory.manage", "pools.manage", "allocations.manage", "fleet.enrol"}
ADMINISTER = OPERATE | {"accounts.manage", "allocations.force", "fleet.forget_host_key"}

PRIVILEGES: dict[str, set[str]] = {
    Role.VIEWER: VIEW,
    Role.USER: USE,
    Role.OPERATOR: OPERATE,
    Role.ADMINISTRATOR: ADMINISTER,
}


def bindings_of(user: User) -> list[tuple[str, UUID | None]]:
    """Role and project. Read once for each request: its user is an object of its own."""
    known: list[tuple[str, UUID | None]] | None = user.__dict__.get("_bindings")
    if known is None:
        known = list(RoleBinding.objects.filter(user=user).values_list("role", "project_id"))
        if "_of_request" in user.__dict__:
            user.__dict__["_bindings"] = known
    return known


def can(user: User, privilege: str, project_id: UUID | None = None) -> bool:
    """Whether one of the user's roles grants it: appliance-wide, or in the project. Without a project, any binding counts."""
    return any(
        privilege in PRIVILEGES[role]
        for role, bound in bindings_of(user)
        if bound is None or project_id is None or bound == project_id
    )


def grants_of(user: User) -> tuple[frozenset[str], dict[UUID, frozenset[str]]]:
    """All privileges of the user: on the whole appliance, and by project."""
    return grants_of_all({user.pk})[user.pk]


Grants = tuple[frozenset[str], dict[UUID, frozenset[str]]]


def grants_of_all(user_ids: Collection[UUID]) -> dict[UUID, Grants]:
    """Of these users, in one read."""
    everywhere: dict[UUID, set[str]] = {u: set() for u in user_ids}
    by_project: dict[UUID, dict[UUID, set[str]]] = {u: {} for u in user_ids}
    for user_id, role, bound in RoleBinding.objects.filter(user_id__in=user_ids).values_list(
        "user_id", "role", "project_id"
    ):
        (
            everywhere[user_id] if bound is None else by_project[user_id].setdefault(bound, set())
        ).update(PRIVILEGES[role])
    return {
        u: (
            frozenset(everywhere[u]),
            {p: frozenset(granted) for p, granted in by_project[u].items()},
        )
        for u in user_ids
    }


def projects_with(user: User, privilege: str) -> list[UUID] | None:
    """The projects in which the user has the privilege; None means all."""
    bindings = bindings_of(user)
    if any(bound is None and privilege in PRIVILEGES[role] for role, bound in bindings):
        return None
    return [
        bound for role, bound in bindings if bound is not None and privilege in PRIVILEGES[role]
    ]
