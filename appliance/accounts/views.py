"""The caller's own account."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Q
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.bindings import groups_by_user
from appliance.accounts.models import RoleBinding, User
from appliance.accounts.permissions import held, privileges_of
from appliance.accounts.role_views import RoleBindingSerializer, with_names
from appliance.accounts.second_factor_policy import lacks_second_factor
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView
from appliance.db import change_log


class MeSerializer(serializers.ModelSerializer[User]):
    username = serializers.CharField(read_only=True)
    roles = serializers.SerializerMethodField(
        help_text="The role bindings of the user and of the groups that the user is in."
    )
    privileges = serializers.SerializerMethodField(
        help_text="All privileges of the roles. Some may apply to certain projects, or objects of "
        "the inventory, only."
    )

    second_factor_since = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="Null without a second factor."
    )
    must_set_up_second_factor = serializers.SerializerMethodField(
        help_text="A second factor is required and missing. There are no privileges until a "
        "sign-in sets one up."
    )
    feed_position = serializers.SerializerMethodField(
        help_text="Position of the feed before this answer. A client that reads objects after it "
        "and then watches with it as `since` misses no change."
    )

    class Meta:
        model = User
        fields: tuple[str, ...] = (
            "id",
            "username",
            "must_change_password",
            "source",
            "second_factor_since",
            "must_set_up_second_factor",
            "feed_position",
            "roles",
            "privileges",
        )
        read_only_fields = fields
        extra_kwargs: ClassVar[dict[str, Any]] = {"source": {"allow_blank": True}}

    def get_must_set_up_second_factor(self, user: User) -> bool:
        return lacks_second_factor(user)

    def get_feed_position(self, user: User) -> str:
        return change_log.feed_position()

    @extend_schema_field(RoleBindingSerializer(many=True))
    def get_roles(self, user: User) -> list[dict[str, object]]:
        groups = groups_by_user({user.pk}).get(user.pk, set())
        bindings = RoleBinding.objects.filter(Q(user=user) | Q(group_id__in=groups))
        return [serialize(RoleBindingSerializer, b) for b in with_names(bindings).order_by("pk")]

    def get_privileges(self, user: User) -> list[str]:
        appliance_wide, by_project = privileges_of(user)
        in_inventory = (grant.privileges for grant in held(user).inventory)
        return sorted(appliance_wide.union(*by_project.values(), *in_inventory))


class MeView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self"}

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """Return the caller's account with its roles and privileges."""
        return Response(MeSerializer(request_user(request)).data)
