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
ADMINISTER = OPERATE | {"accounts.manage", "allocations.force"}

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


def projects_with(user: User, privilege: str) -> list[UUID] | None:
    """The projects in which the user has the privilege; None means all."""
    bindings = list(RoleBinding.objects.filter(user=user).values_list("role", "project_id"))
    if any(bound is None and privilege in PRIVILEGES[role] for role, bound in bindings):
        return None
    return [bound for role, bound in bindings if bound is not None and privilege in PRIVILEGES[role]]
