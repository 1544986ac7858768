"""REST resources role and role binding."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import roles
from appliance.accounts.actions import find_in_inventory
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import create_once
from appliance.accounts.models import BINDING_PLACES, CustomRole, RoleBinding, User
from appliance.accounts.privileges import ADMINISTER, PRIVILEGES
from appliance.accounts.resources import Resource, Values
from appliance.api.errors import ApplianceError, Code
from appliance.api.fields import NameField
from appliance.api.filters import (
    Filter,
    apply_filters,
    parse_text,
)
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import RowSerializer, serialize
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.db.change_log import NO_ID


def parse_gpu(name: str) -> UUID:
    """Name of the GPU as NODE/INDEX."""
    try:
        return UUID(str(find_in_inventory("gpu", parse_text(name)).pk))
    except ApplianceError:
        return NO_ID


BINDING_FILTERS: dict[str, tuple[str, Filter]] = {
    "user": ("user__username", parse_text),
    "group": ("group__name", parse_text),
    "project": ("project__name", parse_text),
    "department": ("department__name", parse_text),
    "site": ("site__name", parse_text),
    "node": ("node__name", parse_text),
    "gpu": ("gpu_id", parse_gpu),
    "pool": ("pool__name", parse_text),
    "role": ("role", parse_text),
}
PRIVILEGE_NAMES = sorted(ADMINISTER)


class RoleSerializer(serializers.Serializer[dict[str, Any]]):
    id = serializers.UUIDField(allow_null=True, help_text="Null for a built-in role.")
    name = serializers.CharField()
    built_in = serializers.BooleanField(help_text="Built-in roles cannot be changed.")
    privileges = serializers.ListField(child=serializers.CharField())
    version = serializers.IntegerField()


class RoleChangeSerializer(RequestSerializer[dict[str, Any]]):
    privileges = serializers.ListField(
        child=serializers.ChoiceField(PRIVILEGE_NAMES),
        help_text="Names of the privileges, all of which you need to have yourself.",
    )


class RoleRequestSerializer(RoleChangeSerializer):
    name = NameField(max_length=100)


def describe(role: CustomRole) -> dict[str, Any]:
    return {
        "id": str(role.pk),
        "name": role.name,
        "built_in": False,
        "privileges": role.privileges,
        "version": role.version,
    }


def built_in_roles() -> list[dict[str, Any]]:
    return [
        {"id": None, "name": str(name), "built_in": True, "privileges": sorted(p), "version": 1}
        for name, p in PRIVILEGES.items()
    ]


ROLES = Resource(
    RoleSerializer,
    {"name": ("name", parse_text)},
    rows=lambda _: CustomRole.objects.all(),
    kind=roles.ROLES,
    represent=lambda _, found: map(describe, found),
)


class RoleListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self", "POST": "accounts.manage"}
    created: ClassVar[dict[str, str]] = {"POST": "roles"}

    @extend_schema(parameters=ROLES.parameters, responses=RoleSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List roles: on the first page the built-in ones, then those that were added."""
        ROLES.reject_unknown_parameters(request)
        rows = apply_filters(request, CustomRole.objects.all(), ROLES.filters, check_names=False)
        wanted = request.query_params.get("name")
        built_in = [role for role in built_in_roles() if wanted in (None, role["name"])]
        first, page = "cursor" not in request.query_params, ROLES.page(request)
        return ROLES.respond_with(
            request,
            page,
            page.paginate_queryset(rows, request),
            lambda: rows.count() + len(built_in),
            lambda found: (built_in if first else []) + [describe(r) for r in found],
        )

    @ROLES.creates(RoleRequestSerializer)
    def post(self, user: User, values: Values) -> CustomRole:
        """Add a role, which is a name for a set of privileges."""
        return roles.role_create(**values, actor=user)


class RoleView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "account.self",
        "PATCH": roles.UPDATE.privilege,
        "DELETE": roles.DELETE.privilege,
    }
    error_codes: ClassVar[ErrorCodes] = {
        "DELETE": (Code.IN_USE,),
    }

    get = ROLES.shows("Return one of the roles that were added.")

    @ROLES.changes(RoleChangeSerializer)
    def patch(self, user: User, role: CustomRole, values: Values) -> CustomRole:
        """Replace the privileges of a role. They hold at once wherever the role is bound."""
        return roles.role_update(role_id=role.pk, values=values, actor=user)

    @ROLES.deletes()
    def delete(self, user: User, role: CustomRole) -> None:
        """Delete a role. Fails with `in_use` and its bindings while it is bound."""
        roles.role_delete(role_id=role.pk, actor=user)


class RoleBindingSerializer(RowSerializer[RoleBinding]):
    role = serializers.CharField(read_only=True)
    user = serializers.CharField(
        source="user.username",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the user; null for the binding of a group.",
    )
    group = serializers.CharField(
        source="group.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the group; null for the binding of a user.",
    )
    project = serializers.CharField(
        source="project.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the project in which the role applies. Null for the whole appliance or "
        "a department.",
    )
    department = serializers.CharField(
        source="department.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the department in whose projects the role applies.",
    )
    site = serializers.CharField(
        source="site.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the site to whose nodes the role applies.",
    )
    node = serializers.CharField(
        source="node.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the node to which, with its GPUs, the role applies.",
    )
    gpu = serializers.CharField(
        source="gpu.short_name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Node and index of the GPU to which the role applies.",
    )
    pool = serializers.CharField(
        source="pool.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the pool to which, with the view of its GPUs, the role applies.",
    )

    class Meta:
        model = RoleBinding
        fields = ("id", "role", "user", "group", *BINDING_PLACES, "created_at")


class RoleBindingRequestSerializer(RequestSerializer[dict[str, Any]]):
    role = NameField(max_length=100, help_text="Name of the role.")
    user = NameField(max_length=150, required=False, help_text="Name of a user.")
    group = NameField(max_length=100, required=False, help_text="Name of a group.")
    project = NameField(
        max_length=100, required=False, help_text="Name of the project in which the role applies."
    )
    department = NameField(
        max_length=100,
        required=False,
        help_text="Name of the department in whose projects the role applies.",
    )
    site = NameField(
        max_length=100,
        required=False,
        help_text="Name of a site. There, as at a node, GPU or pool, only the privileges of the "
        "inventory hold. Without any place the role applies to the whole appliance.",
    )
    node = NameField(max_length=100, required=False, help_text="Name of a node.")
    gpu = NameField(max_length=110, required=False, help_text="Node and index of a GPU: `n1/0`.")
    pool = NameField(max_length=100, required=False, help_text="Name of a pool.")

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if ("user" in data) == ("group" in data):
            raise serializers.ValidationError("Set either user or group.")
        if len(data.keys() & set(BINDING_PLACES)) > 1:
            raise serializers.ValidationError(f"Set at most one of {', '.join(BINDING_PLACES)}.")
        return data


def with_names(rows: QuerySet[RoleBinding]) -> QuerySet[RoleBinding]:
    """Load the rows whose names the serializer shows with the bindings."""
    return rows.select_related(
        "user", "group", "project", "department", "site", "node", "gpu__node", "pool"
    )


BINDINGS = Resource(
    RoleBindingSerializer,
    BINDING_FILTERS,
    CREATED | {"role": Order("role")},
    rows=lambda user: with_names(roles.visible_bindings(user)),
    kind=roles.BINDINGS,
)


class RoleBindingListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "members.manage", "POST": "members.manage"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "role-bindings"}

    get = BINDINGS.lists(
        "List role bindings: those of projects whose members the caller manages, or all."
    )

    @extend_schema(request=RoleBindingRequestSerializer, responses={201: RoleBindingSerializer})
    def post(self, request: Request) -> Response:
        """Bind a role to a user or group. An equal binding that exists is returned.

        Administrators of a project bind roles in it; no user grants privileges that they lack.
        """
        form = RoleBindingRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        actor, values = request_user(request), form.validated_data

        def authorize(stored: dict[str, Any]) -> None:
            bound = RoleBinding.objects.filter(pk=stored["id"], project__isnull=False)
            renamed = bound.values_list("project__name", flat=True).first()
            named = values.get("project", "")
            roles.require_place(actor, renamed or named, named=named)

        return create_once(
            request,
            lambda: serialize(RoleBindingSerializer, roles.bind(**values, actor=actor)),
            authorize=authorize,
        )


class RoleBindingView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "members.manage",
        "DELETE": roles.UNBIND.privilege,
    }

    get = BINDINGS.shows("Return one role binding.")

    @BINDINGS.deletes()
    def delete(self, user: User, binding: RoleBinding) -> None:
        """End a role binding. The last administrator of the appliance stays."""
        roles.unbind(binding_id=binding.pk, actor=user)
