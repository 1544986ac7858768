"""Create, change and delete custom roles, and bind roles to users and groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Model, QuerySet

from appliance.accounts.actions import (
    Action,
    Refusals,
    find_in_inventory,
    raise_refusal,
    register_kind,
)
from appliance.accounts.administrators import Administrators
from appliance.accounts.bindings import Grant, future_grant, privileges_of_roles, row_of
from appliance.accounts.delegation import (
    covered_refusals,
    require_administrator,
    require_covered,
)
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
from appliance.accounts.permissions import can, can_somewhere, projects_with
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
def role_update(*, role_id: UUID, values: Mapping[str, Any], actor: User) -> CustomRole:
    """Change a role. Its privileges hold at once wherever the role is bound.

    Raises ApplianceError DENIED for privileges, old or new, that the actor lacks, CONFLICT if no
    administrator would be left.
    """
    role = lock(CustomRole, role_id)
    for refusal in role_update_refusals(actor, [role]):
        raise_refusal(refusal)
    privileges = set(values.get("privileges", role.privileges))
    require_covered(actor, [Grant(frozenset(privileges), None)])
    save_changes(role, "Role", {**values, "privileges": sorted(privileges)})
    require_administrator()
    return role


@write_transaction
def role_delete(*, role_id: UUID, actor: User) -> None:
    """Delete a role. Raises ApplianceError IN_USE with the bindings that use it."""
    role = lock(CustomRole, role_id)
    for refusal in role_deletion_refusals(actor, [role]):
        raise_refusal(refusal)
    record_deleted(role)
    role.delete()


def role_update_refusals(actor: User, rows: Sequence[CustomRole]) -> Refusals:
    """Return the errors of other privileges. The new privileges may be refused as well."""
    return covered_refusals(actor, [[Grant(frozenset(row.privileges), None)] for row in rows])


def role_deletion_refusals(actor: User, rows: Sequence[CustomRole]) -> Refusals:
    """Return the error IN_USE, with the bindings, for each role that is bound."""
    bindings = RoleBinding.objects.filter(role__in=[row.name for row in rows])
    blockers: dict[str, list[dict[str, str]]] = {}
    for b in bindings.select_related("user", "group"):
        blocker = {"kind": "role_binding", "id": str(b.pk), "name": str(b.user or b.group)}
        blockers.setdefault(b.role, []).append(blocker)
    return [
        ApplianceError(
            Code.IN_USE,
            f"Role {row.name} is bound. Delete its role bindings first.",
            blockers=blockers[row.name],
        )
        if row.name in blockers
        else None
        for row in rows
    ]


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
    for refusal in binding_refusals(actor, [binding]):
        raise_refusal(refusal)
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
    for refusal in unbinding_refusals(actor, [binding]):
        raise_refusal(refusal)
    record_deleted(binding)
    binding.delete()


def require_place(actor: User, project: str, named: str | None = None) -> None:
    """Raise ApplianceError for a place in which the actor manages no members.

    A project that the actor does not see is not found, whether it exists or not; names of users,
    groups and roles are looked up only afterwards. `named` is its name in the request, if the
    project was renamed since.
    """
    if can(actor, MANAGE, None):
        return
    place = find_named(Project, noun="Project", name=project) if project else None
    if place is not None and not can(actor, "allocations.view", place.pk):
        raise not_found("Project", named or project)
    if place is None or not can(actor, MANAGE_MEMBERS, place.pk):
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


def place_refusal(actor: User, binding: RoleBinding) -> ApplianceError | None:
    if can(actor, MANAGE, None):
        return None
    if binding.project_id and can(actor, MANAGE_MEMBERS, binding.project_id):
        return None
    return no_members_there()


def binding_refusals(actor: User, bindings: Sequence[RoleBinding]) -> Refusals:
    """Return the error DENIED for each binding that the actor may not make or end."""
    privileges = privileges_of_roles({binding.role for binding in bindings})
    rows = [row_of(binding) for binding in bindings]
    covered = covered_refusals(actor, [[future_grant(row, privileges[row.role])] for row in rows])
    return [
        place_refusal(actor, binding) or lacking
        for binding, lacking in zip(bindings, covered, strict=True)
    ]


def unbinding_refusals(actor: User, bindings: Sequence[RoleBinding]) -> Refusals:
    refusals = binding_refusals(actor, bindings)
    if all(refusals):
        return refusals
    administrators = Administrators()
    return [
        refusal or administrators.refusal(without_binding=binding.pk)
        for binding, refusal in zip(bindings, refusals, strict=True)
    ]


def visible_bindings(user: User) -> QuerySet[RoleBinding]:
    """Return the bindings in the projects whose members the user manages, or all."""
    if can(user, MANAGE, None):
        return RoleBinding.objects.all()
    projects = projects_with(user, MANAGE_MEMBERS)
    rows = RoleBinding.objects.all()
    return rows if projects is None else rows.filter(project_id__in=projects)


def viewed_bindings(user: User) -> QuerySet[RoleBinding]:
    rows = visible_bindings(user)
    return rows if can_somewhere(user, MANAGE_MEMBERS) else rows.none()


MANAGE, MANAGE_MEMBERS = "accounts.manage", "members.manage"
ROLES = register_kind("roles", lambda _: CustomRole.objects.all())
UPDATE = ROLES.add(Action("update", MANAGE, role_update_refusals))
DELETE = ROLES.add(Action("delete", MANAGE, role_deletion_refusals))
BINDINGS = register_kind("role-bindings", viewed_bindings)
UNBIND = BINDINGS.add(Action("delete", MANAGE_MEMBERS, unbinding_refusals))
