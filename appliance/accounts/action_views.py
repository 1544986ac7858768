"""REST view of the actions of many objects, and the field of their details."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.actions import actions_at
from appliance.accounts.authentication import request_user
from appliance.accounts.authorization import require_own_password
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView

MAX_OBJECTS = 500


class ActionSerializer(serializers.Serializer[dict[str, Any]]):
    name = serializers.CharField()
    allowed = serializers.BooleanField(
        help_text="Whether the action would succeed now, with values that are valid."
    )
    reason = serializers.CharField(
        allow_null=True, help_text="Why not; null if the action is allowed."
    )


def detail_of(serializer: type[Any]) -> type[Any]:
    """Return the serializer of a detail, for the OpenAPI document: it also has `actions`.

    They depend on the caller and on other objects, so they are no part of the ETag, and lists,
    watch and feed are without them.
    """
    field = ActionSerializer(
        many=True,
        read_only=True,
        help_text="What the caller may do now. Not part of the ETag.",
    )
    name = serializer.__name__.replace("Serializer", "DetailSerializer")
    attributes: dict[str, Any] = {"actions": field}
    if meta := getattr(serializer, "Meta", None):
        attributes["Meta"] = type("Meta", (meta,), {"fields": (*meta.fields, "actions")})
    return type(name, (serializer,), attributes)


class ActionQuerySerializer(RequestSerializer[dict[str, Any]]):
    objects = serializers.ListField(
        child=serializers.CharField(max_length=60),
        min_length=1,
        max_length=MAX_OBJECTS,
        help_text="Objects as `KIND/ID`, such as `nodes/ID`.",
    )


class ObjectActionsSerializer(serializers.Serializer[dict[str, Any]]):
    object = serializers.CharField()
    actions = ActionSerializer(
        many=True, allow_null=True, help_text="Null if the caller may not view the object."
    )


class ActionAnswerSerializer(serializers.Serializer[dict[str, Any]]):
    items = ObjectActionsSerializer(many=True, help_text="In the order of the request.")


class ActionView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "account.self"}
    read_only_methods: ClassVar[frozenset[str]] = frozenset({"POST"})

    @extend_schema(
        request=ActionQuerySerializer,
        responses=ActionAnswerSerializer,
    )
    def post(self, request: Request) -> Response:
        """Return what the caller may do with up to 500 objects now, and why not.

        Kinds are alarm-definitions, alarms, allocations, departments, gpus, groups,
        nodes, passkeys, pools, projects, quotas, reservations, role-bindings, roles,
        sites, tasks, tokens and users.
        """
        user = request_user(request)
        require_own_password(user)
        form = ActionQuerySerializer(data=request.data)
        form.is_valid(raise_exception=True)
        places = form.validated_data["objects"]
        found = actions_at(user, places)
        return Response({"items": [{"object": p, "actions": found.get(p)} for p in places]})
