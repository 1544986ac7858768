"""Privileges of roles and users. A privilege that no role binding grants is denied."""

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
ADMINISTER = OPERATE | {
    "accounts.manage",
    "allocations.force",
    "fleet.forget_host_key",
    "fleet.rotate_keys",
    "fleet.use_ssh_agent",
}
APPLIANCE_ONLY = {
    "accounts.manage",
    "allocations.force",
    "fleet.enrol",
    "fleet.forget_host_key",
    "fleet.rotate_keys",
    "fleet.use_ssh_agent",
    "inventory.manage",
    "pools.manage",
}
"""Privileges whose use affects all projects. A role binding in a project does not grant them."""

PRIVILEGES: dict[str, set[str]] = {
    Role.VIEWER: VIEW,
    Role.USER: USE,
    Role.OPERATOR: OPERATE,
    Role.ADMINISTRATOR: ADMINISTER,
}

Privileges = tuple[frozenset[str], dict[UUID, frozenset[str]]]
"""Privileges on the whole appliance, and additional privileges by project."""


def enable_binding_cache(user: User) -> None:
    """Let `role_bindings` cache its result on this instance, which must belong to one request."""
    user.__dict__["_caches_bindings"] = True


def role_bindings(user: User) -> list[tuple[str, UUID | None]]:
    """Return role and project id of each binding of the user. Cached on the user of a request."""
    bindings: list[tuple[str, UUID | None]] | None = user.__dict__.get("_bindings")
    if bindings is None:
        bindings = list(RoleBinding.objects.filter(user=user).values_list("role", "project_id"))
        if "_caches_bindings" in user.__dict__:
            user.__dict__["_bindings"] = bindings
    return bindings


def granted(role: str, project_id: UUID | None) -> set[str]:
    """Return the privileges of a role that is bound in a project, or appliance-wide for None."""
    return PRIVILEGES[role] if project_id is None else PRIVILEGES[role] - APPLIANCE_ONLY


def can(user: User, privilege: str, project_id: UUID | None) -> bool:
    """Return whether a role of the user grants the privilege, appliance-wide or in the project.

    None stands for objects without a project: only appliance-wide roles count.
    """
    return any(
        privilege in granted(role, bound)
        for role, bound in role_bindings(user)
        if bound is None or bound == project_id
    )


def can_somewhere(user: User, privilege: str) -> bool:
    """Return whether a role of the user grants the privilege, appliance-wide or in any project.

    Suffices for operations that check the project of their object as well.
    """
    return any(privilege in granted(role, bound) for role, bound in role_bindings(user))


def privileges_of(user: User) -> Privileges:
    return privileges_by_user({user.pk})[user.pk]


def privileges_by_user(user_ids: Collection[UUID]) -> dict[UUID, Privileges]:
    """Return the privileges of each user, with one query."""
    appliance_wide: dict[UUID, set[str]] = {u: set() for u in user_ids}
    by_project: dict[UUID, dict[UUID, set[str]]] = {u: {} for u in user_ids}
    for user_id, role, bound in RoleBinding.objects.filter(user_id__in=user_ids).values_list(
        "user_id", "role", "project_id"
    ):
        if bound is None:
            appliance_wide[user_id] |= granted(role, None)
        else:
            by_project[user_id].setdefault(bound, set()).update(granted(role, bound))
    return {
        u: (
            frozenset(appliance_wide[u]),
            {p: frozenset(privileges) for p, privileges in by_project[u].items()},
        )
        for u in user_ids
    }


def projects_with(user: User, privilege: str) -> list[UUID] | None:
    """Return the projects in which the user has the privilege, or None for all projects."""
    bindings = role_bindings(user)
    if can(user, privilege, None):
        return None
    return [
        bound for role, bound in bindings if bound is not None and privilege in granted(role, bound)
    ]
