"""Create, change and delete custom roles, and bind roles to users and groups."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db.models import Model

from appliance.accounts.bindings import Grant, future_grant, privileges_of_roles, row_of
from appliance.accounts.delegation import require_administrator, require_covered
from appliance.accounts.models import (
    CustomRole,
    Department,
    Group,
    Project,
    RoleBinding,
    User,
)
from appliance.accounts.named_rows import (
    create_named,
    find_named,
    lock,
    not_found,
    save_changes,
    taken,
)
from appliance.accounts.permissions import can
from appliance.accounts.places import find_in_inventory
from appliance.accounts.privileges import PRIVILEGES
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record_created, record_deleted
from appliance.db.writer import write_transaction


@write_transaction
def role_create(*, name: str, privileges: Collection[str], actor: User) -> CustomRole:
    """Add a role.

    Raises ApplianceError CONFLICT if the name is taken, DENIED for privileges that the actor
    lacks.
    """
    require_covered(actor, [Grant(frozenset(privileges), None)])
    if name in PRIVILEGES:
        raise taken("Role", name)
    return create_named(CustomRole, noun="Role", name=name, privileges=sorted(set(privileges)))


@write_transaction
def role_update(*, role_id: UUID, privileges: Collection[str], actor: User) -> CustomRole:
    """Replace the privileges of a role. It holds at once wherever the role is bound.

    Raises ApplianceError DENIED for privileges, old or new, that the actor lacks, CONFLICT if no
    administrator would be left.
    """
    role = lock(CustomRole, role_id)
    require_covered(actor, [Grant(frozenset(privileges).union(role.privileges), None)])
    save_changes(role, "Role", {"privileges": sorted(set(privileges))})
    require_administrator()
    return role


@write_transaction
def role_delete(*, role_id: UUID) -> None:
    """Delete a role. Raises ApplianceError IN_USE with the bindings that use it."""
    role = lock(CustomRole, role_id)
    bindings = RoleBinding.objects.filter(role=role.name).select_related("user", "group")
    blockers = [
        {"kind": "role_binding", "id": str(b.pk), "name": str(b.user or b.group)} for b in bindings
    ]
    if blockers:
        raise ApplianceError(
            Code.IN_USE,
            f"Role {role.name} is bound. Delete its role bindings first.",
            blockers=blockers,
        )
    record_deleted(role)
    role.delete()


@write_transaction
def bind(
    *,
    role: str,
    actor: User,
    user: str = "",
    group: str = "",
    **place: str,
) -> RoleBinding:
    """Bind a role to a user or group, at a place or on the whole appliance.

    `place` names an object by one of BINDING_PLACES. Returns the existing binding if there is one.
    Raises ApplianceError NOT_FOUND for an unknown name, DENIED if the actor may not manage the
    members there or lacks a privilege of the role.
    """
    require_place(actor, place.get("project", ""))
    binding = RoleBinding(
        role=existing_role(role),
        user=find_named(User, noun="User", column="username", name=user) if user else None,
        group=find_named(Group, noun="Group", name=group) if group else None,
        **{column: find_place(column, name) for column, name in place.items() if name},
    )
    require_authority_over_binding(actor, binding)
    row = row_of(binding)._asdict()
    existing = RoleBinding.objects.filter(
        **{name if value else f"{name}__isnull": value or True for name, value in row.items()}
    ).first()
    if existing is None:
        binding.save(force_insert=True)
        record_created(binding)
    return existing or binding


def find_place(column: str, name: str) -> Model:
    """Return the object with this name. Raises ApplianceError NOT_FOUND."""
    if column == "project":
        return find_named(Project, noun="Project", name=name)
    if column == "department":
        return find_named(Department, noun="Department", name=name)
    return find_in_inventory(column, name)


@write_transaction
def unbind(*, binding_id: UUID, actor: User) -> None:
    """End a binding.

    Raises ApplianceError DENIED if the actor may not manage the members there or lacks a
    privilege of the role, CONFLICT for the last administrator.
    """
    binding = RoleBinding.objects.get(pk=binding_id)
    require_authority_over_binding(actor, binding)
    record_deleted(binding)
    binding.delete()
    require_administrator()


def require_place(actor: User, project: str) -> None:
    """Raise ApplianceError for a place in which the actor manages no members.

    A project that the actor does not see is not found, whether it exists or not; names of users,
    groups and roles are looked up only afterwards.
    """
    if can(actor, "accounts.manage", None):
        return
    place = find_named(Project, noun="Project", name=project) if project else None
    if place is not None and not can(actor, "allocations.view", place.pk):
        raise not_found("Project", project)
    if place is None or not can(actor, "members.manage", place.pk):
        raise no_members_there()


def no_members_there() -> ApplianceError:
    return ApplianceError(
        Code.DENIED,
        "You do not manage the members there. Ask an administrator of the project or of the "
        "appliance.",
    )


def existing_role(name: str) -> str:
    if name not in PRIVILEGES and not CustomRole.objects.filter(name=name).exists():
        raise ApplianceError(
            Code.NOT_FOUND, f'Role "{name}" not found. List roles with: busbar role list'
        )
    return name


def require_authority_over_binding(actor: User, binding: RoleBinding) -> None:
    """Raise ApplianceError DENIED if the actor may not make or end the binding."""
    if not can(actor, "accounts.manage", None) and not (
        binding.project_id and can(actor, "members.manage", binding.project_id)
    ):
        raise no_members_there()
    privileges = privileges_of_roles({binding.role})[binding.role]
    require_covered(actor, [future_grant(row_of(binding), privileges)])
