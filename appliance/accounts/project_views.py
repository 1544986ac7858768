"""REST resources project and department."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import projects
from appliance.accounts.action_views import detail_of
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import create_once
from appliance.accounts.models import Department, Project, User
from appliance.accounts.permissions import can_somewhere
from appliance.accounts.places import Place, register_place
from appliance.accounts.projects import visible_projects
from appliance.api.errors import Code
from appliance.api.fields import LabelsField, NameField
from appliance.api.filters import parse_labels, parse_text
from appliance.api.listing import CREATED, Listing
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes, check_version

LABELS_HELP = "Labels by key. They select projects in lists and in `busbar apply`."


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
        fields = ("id", "name", "department", "labels", "version", "created_at")


class ProjectRequestSerializer(RequestSerializer[dict[str, Any]]):
    name = NameField(max_length=100)
    labels = LabelsField(required=False, help_text=LABELS_HELP)
    department = serializers.CharField(max_length=100, required=False, default="", allow_blank=True)


class ProjectChangeSerializer(RequestSerializer[dict[str, Any]]):
    name = NameField(max_length=100, required=False)
    labels = LabelsField(required=False, help_text=LABELS_HELP)
    department = serializers.CharField(
        max_length=100,
        required=False,
        allow_blank=True,
        help_text="The name of the department. An empty name removes the project from it.",
    )


class DepartmentSerializer(serializers.ModelSerializer[Department]):
    class Meta:
        model = Department
        fields = ("id", "name", "version", "created_at")


class DepartmentRequestSerializer(RequestSerializer[dict[str, str]]):
    name = NameField(max_length=100)


PROJECTS = Listing(
    ProjectSerializer,
    {
        "name": ("name", parse_text),
        "department": ("department__name", parse_text),
        "labels": ("labels", parse_labels),
    },
    CREATED | {"name": Order("name")},
)
DEPARTMENTS = Listing(
    DepartmentSerializer, {"name": ("name", parse_text)}, CREATED | {"name": Order("name")}
)


class ProjectListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view", "POST": "accounts.manage"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "projects"}

    @extend_schema(parameters=PROJECTS.parameters, responses=ProjectSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the projects whose allocations the caller may view."""
        return PROJECTS.respond(request, visible_projects(request_user(request)))

    @extend_schema(request=ProjectRequestSerializer, responses={201: ProjectSerializer})
    def post(self, request: Request) -> Response:
        """Create a project."""
        form = ProjectRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return create_once(
            request,
            lambda: ProjectSerializer(projects.project_create(**form.validated_data)).data,
        )


class ProjectView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "allocations.view",
        "PATCH": projects.MOVE.privilege,
        "DELETE": projects.DELETE.privilege,
    }
    version_methods: ClassVar[frozenset[str]] = frozenset({"PATCH", "DELETE"})
    error_codes: ClassVar[ErrorCodes] = {
        "DELETE": (Code.IN_USE,),
    }

    @extend_schema(responses=detail_of(ProjectSerializer))
    def get(self, request: Request, project_id: UUID) -> Response:
        """Return one project."""
        project = get_object_or_404(visible_projects(request_user(request)), pk=project_id)
        actions = projects.PROJECTS.actions_of(request_user(request), project)
        content = {**ProjectSerializer(project).data, "actions": actions}
        return Response(content, headers={"ETag": f'"{project.version}"'})

    @extend_schema(request=ProjectChangeSerializer, responses=ProjectSerializer)
    def patch(self, request: Request, project_id: UUID) -> Response:
        """Change the name, department or labels of a project."""
        check_version(get_object_or_404(Project, pk=project_id), request)
        form = ProjectChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        project = projects.project_update(
            project_id=project_id, actor=request_user(request), **form.validated_data
        )
        return Response(ProjectSerializer(project).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project_id: UUID) -> Response:
        """Delete a project with its history, quota and role bindings.

        Fails with `in_use` and the blockers: allocations, reservations, and pools that are
        restricted to the project.
        """
        check_version(get_object_or_404(Project, pk=project_id), request)
        projects.project_delete(project_id=project_id, actor=request_user(request))
        return Response(status=204)


class DepartmentListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "accounts.manage"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "departments"}

    @extend_schema(parameters=DEPARTMENTS.parameters, responses=DepartmentSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List departments."""
        return DEPARTMENTS.respond(request, Department.objects.all())

    @extend_schema(request=DepartmentRequestSerializer, responses={201: DepartmentSerializer})
    def post(self, request: Request) -> Response:
        """Create a department."""
        form = DepartmentRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return create_once(
            request,
            lambda: DepartmentSerializer(projects.department_create(**form.validated_data)).data,
        )


class DepartmentView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "pools.view",
        "PATCH": projects.RENAME_DEPARTMENT.privilege,
        "DELETE": projects.DELETE_DEPARTMENT.privilege,
    }
    version_methods: ClassVar[frozenset[str]] = frozenset({"PATCH", "DELETE"})
    error_codes: ClassVar[ErrorCodes] = {
        "DELETE": (Code.IN_USE,),
    }

    @extend_schema(responses=detail_of(DepartmentSerializer))
    def get(self, request: Request, department_id: UUID) -> Response:
        """Return one department."""
        row = get_object_or_404(Department, pk=department_id)
        actions = projects.DEPARTMENTS.actions_of(request_user(request), row)
        content = {**DepartmentSerializer(row).data, "actions": actions}
        return Response(content, headers={"ETag": f'"{row.version}"'})

    @extend_schema(request=DepartmentRequestSerializer, responses=DepartmentSerializer)
    def patch(self, request: Request, department_id: UUID) -> Response:
        """Rename a department."""
        check_version(get_object_or_404(Department, pk=department_id), request)
        form = DepartmentRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        row = projects.department_rename(
            department_id=department_id, actor=request_user(request), **form.validated_data
        )
        return Response(DepartmentSerializer(row).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, department_id: UUID) -> Response:
        """Delete a department, its quota and its role bindings.

        Fails with `in_use` and its projects while it has any.
        """
        check_version(get_object_or_404(Department, pk=department_id), request)
        projects.department_delete(department_id=department_id, actor=request_user(request))
        return Response(status=204)


def place_of_project(viewer: User, project_id: UUID) -> Place:
    return Place(get_object_or_404(visible_projects(viewer), pk=project_id).pk)


def place_of_department(viewer: User, department_id: UUID) -> Place:
    """Return the place of a department, which everybody may view who may view pools."""
    if not can_somewhere(viewer, "pools.view"):
        raise Http404
    row = get_object_or_404(Department, pk=department_id)
    return Place(department_id=row.pk)


register_place("projects", place_of_project)
register_place("departments", place_of_department)
