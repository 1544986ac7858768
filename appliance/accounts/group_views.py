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
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import create_once
from appliance.accounts.models import Group, GroupMember, User
from appliance.accounts.resources import Resource, Values
from appliance.api.fields import NameField
from appliance.api.filters import (
    parse_text,
)
from appliance.api.listing import CREATED, Listing
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import RowSerializer, serialize
from appliance.api.views import ApplianceView


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


GROUPS = Resource(
    GroupSerializer,
    {"name": ("name", parse_text)},
    CREATED | {"name": Order("name")},
    rows=lambda _: Group.objects.all(),
    kind=groups.GROUPS,
)
MEMBERS = Listing(
    GroupMemberSerializer,
    {"user": ("user__username", parse_text), "group": ("member_group__name", parse_text)},
)


class GroupListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "accounts.manage", "POST": "accounts.manage"}
    created: ClassVar[dict[str, str]] = {"POST": "groups"}
    get = GROUPS.lists("List groups.")

    @GROUPS.creates(GroupRequestSerializer)
    def post(self, user: User, values: Values) -> Group:
        """Create a group without members and roles."""
        return groups.group_create(values=values)


class GroupView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "accounts.manage",
        "PATCH": groups.RENAME.privilege,
        "DELETE": groups.DELETE.privilege,
    }
    get = GROUPS.shows("Return one group.")

    @GROUPS.changes(GroupRequestSerializer)
    def patch(self, user: User, group: Group, values: Values) -> Group:
        """Rename a group."""
        return groups.group_update(group_id=group.pk, values=values, actor=user)

    @GROUPS.deletes()
    def delete(self, user: User, group: Group) -> None:
        """Delete a group and its role bindings. Its members stay."""
        groups.group_delete(group_id=group.pk, actor=user)


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
