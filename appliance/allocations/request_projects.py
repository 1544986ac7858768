"""The project of a request for an allocation."""

from __future__ import annotations

from uuid import UUID

from appliance.accounts.models import Project, User
from appliance.accounts.permissions import can, projects_with
from appliance.accounts.projects import DEFAULT_PROJECT
from appliance.api.errors import ApplianceError, Code
from appliance.db.prepared import Select

PROJECT_BY_NAME = Select(lambda name: Project.objects.filter(name=name))
PROJECT_OF_ALLOCATION = Select(
    lambda allocation_id: Project.objects.filter(allocations=allocation_id)
)
PRIVILEGE = "allocations.create"


def find_project(owner: User, name: str | None) -> Project:
    """Return the project for a new allocation; None finds that of a request without one.

    Raises ApplianceError as `permitted` does.
    """
    if name is None:
        return unnamed_project(owner)
    return permitted(owner, PROJECT_BY_NAME.first(name=name), name)


def project_of_allocation(owner: User, allocation_id: UUID, name: str) -> Project:
    """Return the project of an allocation that had this name at the request of the owner.

    Raises ApplianceError as `permitted` does.
    """
    return permitted(owner, PROJECT_OF_ALLOCATION.first(allocation_id=allocation_id), name)


def permitted(owner: User, project: Project | None, name: str) -> Project:
    """Return the project that was asked for by this name.

    Raises ApplianceError NOT_FOUND for one that the owner may not view, whether it exists or not,
    DENIED for another one in which the owner may not allocate.
    """
    may_allocate = project is not None and can(owner, PRIVILEGE, project.pk)
    if project is None or not (may_allocate or can(owner, "allocations.view", project.pk)):
        raise ApplianceError(
            Code.NOT_FOUND, f"Project {name} not found. List projects with: busbar project list"
        )
    if not may_allocate:
        raise ApplianceError(
            Code.DENIED,
            f"Allocations in project {project.name} are denied. "
            "Ask an administrator of the project for the role `user` in it.",
        )
    return project


def unnamed_project(owner: User) -> Project:
    """Return the default project if the owner may allocate in it, or else the only one.

    Raises ApplianceError DENIED if there is none, INVALID if there are several.
    """
    default = PROJECT_BY_NAME.first(name=DEFAULT_PROJECT)
    if default is not None and can(owner, PRIVILEGE, default.pk):
        return default
    permitted = projects_with(owner, PRIVILEGE) or []
    rows = list(Project.objects.filter(pk__in=permitted).order_by("name"))
    if not rows:
        raise ApplianceError(
            Code.DENIED,
            f"{owner.username} may request GPUs in no project. "
            "Ask an administrator of a project for the role `user` in it.",
        )
    if len(rows) > 1:
        names = ", ".join(row.name for row in rows)
        raise ApplianceError(
            Code.INVALID,
            f"{owner.username} may request GPUs in several projects: {names}. "
            "Name one of them: add --project NAME, or the field project.",
        )
    return rows[0]
