"""REST resources project and department."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import services
from appliance.accounts.authentication import request_user
from appliance.accounts.models import Department, Project
from appliance.accounts.permissions import projects_with
from appliance.api.fields import NameField
from appliance.api.filters import reject_unknown_parameters
from appliance.api.pagination import CursorPagination
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView, check_version


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


class ProjectRequestSerializer(RequestSerializer[dict[str, str]]):
    name = NameField(max_length=100)
    department = serializers.CharField(max_length=100, required=False, default="", allow_blank=True)


class ProjectChangeSerializer(RequestSerializer[dict[str, str]]):
    department = serializers.CharField(
        max_length=100,
        allow_blank=True,
        help_text="The name of the department. An empty name removes the project from it.",
    )


class DepartmentSerializer(serializers.ModelSerializer[Department]):
    class Meta:
        model = Department
        fields = ("id", "name", "version", "created_at")


class DepartmentRequestSerializer(RequestSerializer[dict[str, str]]):
    name = NameField(max_length=100)


class ProjectListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view", "POST": "accounts.manage"}

    @extend_schema(responses=ProjectSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the projects whose allocations the caller may view."""
        reject_unknown_parameters(request, [])
        rows = Project.objects.select_related("department")
        visible = projects_with(request_user(request), "allocations.view")
        if visible is not None:
            rows = rows.filter(pk__in=visible)
        page = CursorPagination()
        found = page.paginate_queryset(rows, request)
        return page.get_paginated_response(ProjectSerializer(found, many=True).data)

    @extend_schema(request=ProjectRequestSerializer, responses={201: ProjectSerializer})
    def post(self, request: Request) -> Response:
        """Create a project."""
        form = ProjectRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        project = services.project_create(**form.validated_data)
        return Response(ProjectSerializer(project).data, status=201)


class ProjectView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"PATCH": "accounts.manage"}

    @extend_schema(request=ProjectChangeSerializer, responses=ProjectSerializer)
    def patch(self, request: Request, project_id: UUID) -> Response:
        """Move a project to another department."""
        project = get_object_or_404(Project, pk=project_id)
        check_version(project, request)
        form = ProjectChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        project = services.project_set_department(
            project_id=project.pk, department=form.validated_data["department"]
        )
        return Response(ProjectSerializer(project).data)


class DepartmentListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "accounts.manage"}

    @extend_schema(responses=DepartmentSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List departments."""
        reject_unknown_parameters(request, [])
        page = CursorPagination()
        found = page.paginate_queryset(Department.objects.all(), request)
        return page.get_paginated_response(DepartmentSerializer(found, many=True).data)

    @extend_schema(request=DepartmentRequestSerializer, responses={201: DepartmentSerializer})
    def post(self, request: Request) -> Response:
        """Create a department."""
        form = DepartmentRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        department = services.department_create(name=form.validated_data["name"])
        return Response(DepartmentSerializer(department).data, status=201)
