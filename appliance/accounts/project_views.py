"""Projects and departments."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import services
from appliance.accounts.models import Department, Project
from appliance.accounts.permissions import projects_with
from appliance.fields import NameField
from appliance.rest import (
    ApplianceView,
    CursorPage,
    caller,
    check_version,
    refuse_unknown_parameters,
)


class ProjectSerializer(serializers.ModelSerializer[Project]):
    department = serializers.CharField(
        source="department.name", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = Project
        fields = ("id", "name", "department", "labels", "version", "created_at")


class ProjectRequestSerializer(serializers.Serializer[dict[str, str]]):
    name = NameField(max_length=100)
    department = serializers.CharField(max_length=100, required=False, default="", allow_blank=True)


class ProjectChangeSerializer(serializers.Serializer[dict[str, str]]):
    department = serializers.CharField(
        max_length=100, allow_blank=True, help_text="Its name; empty: none."
    )


class DepartmentSerializer(serializers.ModelSerializer[Department]):
    class Meta:
        model = Department
        fields = ("id", "name", "version", "created_at")
        read_only_fields = ("id", "version", "created_at")
        extra_kwargs: ClassVar[dict[str, Any]] = {
            "name": {"validators": []}
        }  # a clash is a conflict, which the service says


class ProjectListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view", "POST": "accounts.manage"}

    @extend_schema(responses=ProjectSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Those whose allocations one may see."""
        refuse_unknown_parameters(request, [])
        rows, mine = (
            Project.objects.select_related("department"),
            projects_with(caller(request), "allocations.view"),
        )
        page = CursorPage()
        found = page.paginate_queryset(rows if mine is None else rows.filter(pk__in=mine), request)
        return page.get_paginated_response(ProjectSerializer(found, many=True).data)

    @extend_schema(request=ProjectRequestSerializer, responses={201: ProjectSerializer})
    def post(self, request: Request) -> Response:
        form = ProjectRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(
            ProjectSerializer(services.project_create(**form.validated_data)).data, status=201
        )


class ProjectView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"PATCH": "accounts.manage"}

    @extend_schema(request=ProjectChangeSerializer, responses=ProjectSerializer)
    def patch(self, request: Request, project_id: UUID) -> Response:
        project = get_object_or_404(Project, pk=project_id)
        check_version(project, request)
        form = ProjectChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(
            ProjectSerializer(
                services.project_set_department(
                    project_id=project.pk, department=form.validated_data["department"]
                )
            ).data
        )


class DepartmentListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "accounts.manage"}

    @extend_schema(responses=DepartmentSerializer(many=True))
    def get(self, request: Request) -> Response:
        refuse_unknown_parameters(request, [])
        page = CursorPage()
        return page.get_paginated_response(
            DepartmentSerializer(
                page.paginate_queryset(Department.objects.all(), request), many=True
            ).data
        )

    @extend_schema(request=DepartmentSerializer, responses={201: DepartmentSerializer})
    def post(self, request: Request) -> Response:
        form = DepartmentSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(
            DepartmentSerializer(services.department_create(name=form.validated_data["name"])).data,
            status=201,
        )
