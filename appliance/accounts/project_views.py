"""REST resources project and department."""

from __future__ import annotations

from typing import ClassVar

from django.db.models import QuerySet
from rest_framework import serializers

from appliance.accounts import projects
from appliance.accounts.models import Department, Project, User
from appliance.accounts.projects import visible_projects
from appliance.accounts.resources import Resource, Values
from appliance.api.errors import Code
from appliance.api.fields import LabelsField, NameField
from appliance.api.filters import parse_labels, parse_text
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.request_serializer import ModelRequestSerializer, RequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes

PROJECT_FIELDS = ("name", "department", "labels")


class ProjectSerializer(serializers.ModelSerializer[Project]):
    department = serializers.CharField(
        source="department.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="The name of the department; null if the project has none.",
    )

    class Meta:
        model = Project
        fields = ("id", *PROJECT_FIELDS, "version", "created_at")


class ProjectRequestSerializer(ModelRequestSerializer[Project]):
    name = NameField(max_length=100)
    department = serializers.CharField(max_length=100, required=False, allow_blank=True)
    labels = LabelsField(
        required=False,
        help_text="Labels by key. They select projects in lists and in `busbar apply`.",
    )

    class Meta:
        model = Project
        fields = PROJECT_FIELDS


class DepartmentSerializer(serializers.ModelSerializer[Department]):
    class Meta:
        model = Department
        fields = ("id", "name", "version", "created_at")


class DepartmentRequestSerializer(RequestSerializer[dict[str, str]]):
    name = NameField(max_length=100)


PROJECTS = Resource(
    ProjectSerializer,
    {
        "name": ("name", parse_text),
        "department": ("department__name", parse_text),
        "labels": ("labels", parse_labels),
    },
    CREATED | {"name": Order("name")},
    rows=visible_projects,
    kind=projects.PROJECTS,
)
DEPARTMENTS = Resource(
    DepartmentSerializer,
    {"name": ("name", parse_text)},
    CREATED | {"name": Order("name")},
    rows=lambda _: Department.objects.all(),
    kind=projects.DEPARTMENTS,
)


def all_projects(user: User) -> QuerySet[Project]:
    """Return the projects that a user may change with the privilege for it."""
    return Project.objects.all()


class ProjectListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view", "POST": "accounts.manage"}
    created: ClassVar[dict[str, str]] = {"POST": "projects"}

    get = PROJECTS.lists("List the projects whose allocations the caller may view.")

    @PROJECTS.creates(ProjectRequestSerializer)
    def post(self, user: User, values: Values) -> Project:
        """Create a project."""
        return projects.project_create(values=values)


class ProjectView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "allocations.view",
        "PATCH": projects.MOVE.privilege,
        "DELETE": projects.DELETE.privilege,
    }
    error_codes: ClassVar[ErrorCodes] = {
        "DELETE": (Code.IN_USE,),
    }

    get = PROJECTS.shows("Return one project.")

    @PROJECTS.changes(ProjectRequestSerializer, rows=all_projects)
    def patch(self, user: User, project: Project, values: Values) -> Project:
        """Change the name, department or labels of a project."""
        return projects.project_update(project_id=project.pk, values=values, actor=user)

    @PROJECTS.deletes(rows=all_projects)
    def delete(self, user: User, project: Project) -> None:
        """Delete a project with its history, quota and role bindings.

        Fails with `in_use` and the blockers: allocations, reservations, and pools that are
        restricted to the project.
        """
        projects.project_delete(project_id=project.pk, actor=user)


class DepartmentListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "accounts.manage"}
    created: ClassVar[dict[str, str]] = {"POST": "departments"}

    get = DEPARTMENTS.lists("List departments.")

    @DEPARTMENTS.creates(DepartmentRequestSerializer)
    def post(self, user: User, values: Values) -> Department:
        """Create a department."""
        return projects.department_create(values=values)


class DepartmentView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "pools.view",
        "PATCH": projects.RENAME_DEPARTMENT.privilege,
        "DELETE": projects.DELETE_DEPARTMENT.privilege,
    }
    error_codes: ClassVar[ErrorCodes] = {
        "DELETE": (Code.IN_USE,),
    }

    get = DEPARTMENTS.shows("Return one department.")

    @DEPARTMENTS.changes(DepartmentRequestSerializer)
    def patch(self, user: User, department: Department, values: Values) -> Department:
        """Rename a department."""
        return projects.department_update(department_id=department.pk, values=values, actor=user)

    @DEPARTMENTS.deletes()
    def delete(self, user: User, department: Department) -> None:
        """Delete a department, its quota and its role bindings.

        Fails with `in_use` and its projects while it has any.
        """
        projects.department_delete(department_id=department.pk, actor=user)
