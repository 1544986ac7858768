"""Create, change and delete departments and projects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from appliance.accounts.actions import (
    Action,
    Refusals,
    raise_refusal,
    register_kind,
)
from appliance.accounts.delegation import bound_refusals
from appliance.accounts.dependents import delete_with_dependents, dependent_refusals
from appliance.accounts.models import Department, Project, User
from appliance.accounts.named_rows import create_named, find_named, lock, save_changes
from appliance.accounts.permissions import can_somewhere, projects_with
from appliance.accounts.places import Place
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction

DEFAULT_PROJECT = "default"


def find_department(name: str) -> Department | None:
    """Return the department with this name, or None for an empty name.

    Raises ApplianceError with NOT_FOUND if there is none.
    """
    return find_named(Department, noun="Department", name=name) if name else None


@write_transaction
def department_create(*, values: Mapping[str, Any]) -> Department:
    """Create a department. Raises ApplianceError CONFLICT if the name is taken."""
    return create_named(Department, noun="Department", **values)


@write_transaction
def department_update(*, department_id: UUID, values: Mapping[str, Any], actor: User) -> Department:
    """Change a department.

    Programs bind roles by its name. Raises ApplianceError DENIED if its role bindings grant
    privileges that the actor lacks, CONFLICT if the name is taken.
    """
    row = lock(Department, department_id)
    for refusal in department_rename_refusals(actor, [row]):
        raise_refusal(refusal)
    return save_changes(row, "Department", values)


@write_transaction
def department_delete(*, department_id: UUID, actor: User) -> None:
    """Delete a department, its quota and its role bindings.

    Raises ApplianceError IN_USE with the projects in it, DENIED if its role bindings grant
    privileges that the actor lacks.
    """
    row = lock(Department, department_id)
    for refusal in department_deletion_refusals(actor, [row]):
        raise_refusal(refusal)
    delete_with_dependents(row)


def department_refusals(rows: Sequence[Department]) -> list[ApplianceError | None]:
    """Return the error IN_USE, with the projects, for each department that has any."""
    blockers: dict[UUID | None, list[dict[str, object]]] = {}
    projects = Project.objects.filter(department__in=rows)
    for department_id, pk, name in projects.values_list("department_id", "pk", "name"):
        blocker: dict[str, object] = {"kind": "project", "id": str(pk), "name": name}
        blockers.setdefault(department_id, []).append(blocker)
    return [
        ApplianceError(
            Code.IN_USE,
            f"Department {row.name} has projects. Move or delete them first.",
            blockers=blockers[row.pk],
        )
        if row.pk in blockers
        else None
        for row in rows
    ]


@write_transaction
def project_create(*, values: Mapping[str, Any]) -> Project:
    """Create a project. Raises ApplianceError CONFLICT if the name is taken."""
    department = find_department(values.get("department", ""))
    return create_named(Project, noun="Project", **{**values, "department": department})


@write_transaction
def project_update(*, project_id: UUID, values: Mapping[str, Any], actor: User) -> Project:
    """Change a project. `values` are the fields of a request.

    Raises ApplianceError CONFLICT for the default project or a name that is taken, DENIED if role
    bindings in the project (another name) or in the old or new department (another department)
    grant privileges that the actor lacks in the project.
    """
    row = lock(Project, project_id)
    columns = dict(values)
    if values.get("name", row.name) != row.name:
        for refusal in project_rename_refusals(actor, [row]):
            raise_refusal(refusal)
    if "department" in values:
        columns["department"] = to = find_department(values["department"])
        moved = [d.pk for d in (row.department, to) if d] if to != row.department else []
        for refusal in bound_refusals(actor, [(project_id, moved)]):
            raise_refusal(refusal)
    return save_changes(row, "Project", columns)


@write_transaction
def project_delete(*, project_id: UUID, actor: User) -> None:
    """Delete a project with its history, quota and role bindings.

    Raises ApplianceError IN_USE with the blockers, CONFLICT for the default project, and DENIED if
    its role bindings grant privileges that the actor lacks.
    """
    row = lock(Project, project_id)
    for refusal in project_deletion_refusals(actor, [row]):
        raise_refusal(refusal)
    delete_with_dependents(row)


def default_project_refusal(project: Project, verb: str) -> ApplianceError | None:
    if project.name != DEFAULT_PROJECT:
        return None
    return ApplianceError(
        Code.CONFLICT,
        f"The project {DEFAULT_PROJECT} cannot be {verb}, because requests without a project "
        "use it.",
    )


def visible_projects(user: User) -> QuerySet[Project]:
    """Return the projects whose allocations the user may view."""
    rows = Project.objects.select_related("department")
    visible = projects_with(user, "allocations.view")
    return rows if visible is None else rows.filter(pk__in=visible)


def visible_departments(user: User) -> QuerySet[Department]:
    rows = Department.objects.all()
    return rows if can_somewhere(user, "pools.view") else rows.none()


def project_deletion_refusals(user: User, rows: Sequence[Project]) -> Refusals:
    members = bound_refusals(user, [(row.pk, [row.pk]) for row in rows])
    return [
        default_project_refusal(row, "deleted") or with_members or in_use
        for row, with_members, in_use in zip(rows, members, dependent_refusals(rows), strict=True)
    ]


def project_rename_refusals(user: User, rows: Sequence[Project]) -> Refusals:
    """Return the errors of another name: programs bind roles and set quotas by it."""
    members = bound_refusals(user, [(row.pk, [row.pk]) for row in rows])
    return [
        default_project_refusal(row, "renamed") or with_members
        for row, with_members in zip(rows, members, strict=True)
    ]


def department_rename_refusals(user: User, rows: Sequence[Department]) -> Refusals:
    return bound_refusals(user, [(None, [row.pk]) for row in rows])


def project_move_refusals(user: User, rows: Sequence[Project]) -> Refusals:
    """Return the errors of a move out of the department. The new department may refuse as well."""
    left = [(row.pk, [row.department_id] if row.department_id else []) for row in rows]
    return bound_refusals(user, left)


def department_deletion_refusals(user: User, rows: Sequence[Department]) -> Refusals:
    members = bound_refusals(user, [(None, [row.pk]) for row in rows])
    rules = zip(department_refusals(rows), members, dependent_refusals(rows), strict=True)
    return [with_projects or bound or in_use for with_projects, bound, in_use in rules]


MANAGE = "accounts.manage"
PROJECTS = register_kind("projects", visible_projects, lambda row: Place(row.pk))
MOVE = PROJECTS.add(Action("move", MANAGE, project_move_refusals))
PROJECTS.add(Action("rename", MANAGE, project_rename_refusals))
DELETE = PROJECTS.add(Action("delete", MANAGE, project_deletion_refusals))
DEPARTMENTS = register_kind(
    "departments", visible_departments, lambda row: Place(department_id=row.pk)
)
RENAME_DEPARTMENT = DEPARTMENTS.add(Action("rename", MANAGE, department_rename_refusals))
DELETE_DEPARTMENT = DEPARTMENTS.add(Action("delete", MANAGE, department_deletion_refusals))
