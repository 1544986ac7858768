"""Create, change and delete departments and projects."""

from __future__ import annotations

from uuid import UUID

from appliance.accounts.bindings import Row, grants_of
from appliance.accounts.delegation import require_authority_over_members, require_covered
from appliance.accounts.dependents import delete_with_dependents
from appliance.accounts.models import Department, Project, RoleBinding, User
from appliance.accounts.named_rows import create_named, find_named, lock, save_changes
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction

DEFAULT_PROJECT = "default"


def find_department(name: str) -> Department | None:
    """Return the department with this name, or None for an empty name.

    Raises ApplianceError with NOT_FOUND if there is none.
    """
    return find_named(Department, noun="Department", name=name) if name else None


@write_transaction
def department_create(*, name: str) -> Department:
    """Create a department. Raises ApplianceError CONFLICT if the name is taken."""
    return create_named(Department, noun="Department", name=name)


@write_transaction
def department_rename(*, department_id: UUID, name: str) -> Department:
    """Rename a department. Raises ApplianceError CONFLICT if the name is taken."""
    return save_changes(lock(Department, department_id), "Department", {"name": name})


@write_transaction
def department_delete(*, department_id: UUID, actor: User) -> None:
    """Delete a department, its quota and its role bindings.

    Raises ApplianceError IN_USE with the projects in it, DENIED if its role bindings grant
    privileges that the actor lacks.
    """
    row = lock(Department, department_id)
    blockers = [
        {"kind": "project", "id": str(pk), "name": name}
        for pk, name in row.projects.values_list("pk", "name")
    ]
    if blockers:
        raise ApplianceError(
            Code.IN_USE,
            f"Department {row.name} has projects. Move or delete them first.",
            blockers=blockers,
        )
    bindings = RoleBinding.objects.filter(department=row).values_list(*Row._fields)
    for found in grants_of(map(Row._make, bindings), future=True):
        require_covered(actor, found)
    delete_with_dependents(row, f"Department {row.name}")


@write_transaction
def project_create(*, name: str, department: str) -> Project:
    """Create a project. Raises ApplianceError CONFLICT if the name is taken."""
    return create_named(Project, noun="Project", name=name, department=find_department(department))


@write_transaction
def project_update(
    *, project_id: UUID, actor: User, name: str | None = None, department: str | None = None
) -> Project:
    """Rename a project or move it to another department; None leaves a value unchanged.

    Raises ApplianceError CONFLICT for the default project or a name that is taken, DENIED if role
    bindings in the old or new department grant privileges that the actor lacks in the project.
    """
    row = lock(Project, project_id)
    columns: dict[str, object] = {}
    if name is not None and name != row.name:
        require_not_default(row, "renamed")
        columns["name"] = name
    if department is not None:
        columns["department"] = to = find_department(department)
        if to != row.department and (moved := [d.pk for d in (row.department, to) if d]):
            require_authority_over_members(actor, project_id, moved)
    return save_changes(row, "Project", columns)


@write_transaction
def project_delete(*, project_id: UUID, actor: User) -> None:
    """Delete a project with its history, quota and role bindings.

    Raises ApplianceError IN_USE with the blockers, CONFLICT for the default project, and DENIED if
    its role bindings grant privileges that the actor lacks.
    """
    row = lock(Project, project_id)
    require_not_default(row, "deleted")
    require_authority_over_members(actor, project_id)
    delete_with_dependents(row, f"Project {row.name}")


def require_not_default(project: Project, verb: str) -> None:
    if project.name == DEFAULT_PROJECT:
        raise ApplianceError(
            Code.CONFLICT,
            f"The project {DEFAULT_PROJECT} cannot be {verb}, because requests without a project "
            "use it.",
        )
