"""REST resources group and group member."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import groups
from appliance.accounts.action_views import detail_of
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import create_once
from appliance.accounts.models import Group, GroupMember
from appliance.api.fields import NameField
from appliance.api.filters import (
    parse_text,
)
from appliance.api.listing import CREATED, Listing
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.row_serializer import RowSerializer
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, check_version


class GroupSerializer(RowSerializer[Group]):
    class Meta:
        model = Group
        fields = ("id", "name", "version", "created_at")


class GroupRequestSerializer(RequestSerializer[dict[str, str]]):
    name = NameField(max_length=100)


class GroupMemberSerializer(RowSerializer[GroupMember]):
    user = serializers.CharField(
        source="user.username",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the user; null for a group.",
    )
    group = serializers.CharField(
        source="member_group.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the group whose members are members, too; null for a user.",
    )

    class Meta:
        model = GroupMember
        fields = ("id", "user", "group", "created_at")


class GroupMemberRequestSerializer(RequestSerializer[dict[str, str]]):
    user = NameField(max_length=150, required=False, help_text="Name of a user.")
    group = NameField(
        max_length=100,
        required=False,
        help_text="Name of a group, whose members become members, too.",
    )

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if ("user" in data) == ("group" in data):
            raise serializers.ValidationError("Set either user or group.")
        return data


GROUPS = Listing(GroupSerializer, {"name": ("name", parse_text)}, CREATED | {"name": Order("name")})
MEMBERS = Listing(
    GroupMemberSerializer,
    {"user": ("user__username", parse_text), "group": ("member_group__name", parse_text)},
)


class GroupListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "accounts.manage", "POST": "accounts.manage"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "groups"}

    @extend_schema(parameters=GROUPS.parameters, responses=GroupSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List groups."""
        return GROUPS.respond(request, Group.objects.all())

    @extend_schema(request=GroupRequestSerializer, responses={201: GroupSerializer})
    def post(self, request: Request) -> Response:
        """Create a group without members and roles."""
        form = GroupRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return create_once(
            request,
            lambda: serialize(GroupSerializer, groups.group_create(**form.validated_data)),
        )


class GroupView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "accounts.manage",
        "PATCH": groups.RENAME.privilege,
        "DELETE": groups.DELETE.privilege,
    }
    version_methods: ClassVar[frozenset[str]] = frozenset({"PATCH", "DELETE"})

    @extend_schema(responses=detail_of(GroupSerializer))
    def get(self, request: Request, group_id: UUID) -> Response:
        """Return one group."""
        group = get_object_or_404(Group, pk=group_id)
        actions = groups.GROUPS.actions_of(request_user(request), group)
        content = serialize(GroupSerializer, group) | {"actions": actions}
        return Response(content, headers={"ETag": f'"{group.version}"'})

    @extend_schema(request=GroupRequestSerializer, responses=GroupSerializer)
    def patch(self, request: Request, group_id: UUID) -> Response:
        """Rename a group."""
        check_version(get_object_or_404(Group, pk=group_id), request)
        form = GroupRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        group = groups.group_rename(
            group_id=group_id, name=form.validated_data["name"], actor=request_user(request)
        )
        return Response(serialize(GroupSerializer, group))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, group_id: UUID) -> Response:
        """Delete a group and its role bindings. Its members stay."""
        check_version(get_object_or_404(Group, pk=group_id), request)
        groups.group_delete(group_id=group_id, actor=request_user(request))
        return Response(status=204)


class GroupMemberListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "accounts.manage",
        "POST": groups.ADD_MEMBER.privilege,
    }
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})

    @extend_schema(parameters=MEMBERS.parameters, responses=GroupMemberSerializer(many=True))
    def get(self, request: Request, group_id: UUID) -> Response:
        """List the users and groups in a group."""
        group = get_object_or_404(Group, pk=group_id)
        return MEMBERS.respond(request, group.members.select_related("user", "member_group"))

    @extend_schema(request=GroupMemberRequestSerializer, responses={201: GroupMemberSerializer})
    def post(self, request: Request, group_id: UUID) -> Response:
        """Add a user or a group. Fails with `conflict` if groups would form a circle."""
        group = get_object_or_404(Group, pk=group_id)
        form = GroupMemberRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)

        def create() -> dict[str, Any]:
            member = groups.member_add(
                group_id=group.pk, actor=request_user(request), **form.validated_data
            )
            return serialize(GroupMemberSerializer, member)

        return create_once(request, create)


class GroupMemberView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"DELETE": "accounts.manage"}

    @extend_schema(responses={204: None})
    def delete(self, request: Request, group_id: UUID, member_id: UUID) -> Response:
        """Remove a user or a group from a group."""
        member = get_object_or_404(GroupMember, pk=member_id, group_id=group_id)
        groups.member_remove(member_id=member.pk, actor=request_user(request))
        return Response(status=204)
