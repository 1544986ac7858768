"""What each role may do. Deny by default."""

from __future__ import annotations

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


def can(user: User, privilege: str, project_id: UUID | None = None) -> bool:
    """Whether one of the user's roles grants it: appliance-wide, or in the project. Without a project, any binding counts."""
    bindings = RoleBinding.objects.filter(user=user).values_list("role", "project_id")
    return any(privilege in PRIVILEGES[role] for role, bound in bindings if bound is None or project_id is None or bound == project_id)


def grants_of(user: User) -> tuple[frozenset[str], dict[UUID, frozenset[str]]]:
    """All privileges of the user: on the whole appliance, and by project."""
    everywhere: set[str] = set()
    by_project: dict[UUID, set[str]] = {}
    for role, bound in RoleBinding.objects.filter(user=user).values_list("role", "project_id"):
        (everywhere if bound is None else by_project.setdefault(bound, set())).update(PRIVILEGES[role])
    return frozenset(everywhere), {p: frozenset(granted) for p, granted in by_project.items()}


def projects_with(user: User, privilege: str) -> list[UUID] | None:
    """The projects in which the user has the privilege; None means all."""
    bindings = list(RoleBinding.objects.filter(user=user).values_list("role", "project_id"))
    if any(bound is None and privilege in PRIVILEGES[role] for role, bound in bindings):
        return None
    return [bound for role, bound in bindings if bound is not None and privilege in PRIVILEGES[role]]
