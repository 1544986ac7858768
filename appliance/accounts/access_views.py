"""REST view of what a user may do at an object, and through which role bindings."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.bindings import Row, grants_of, groups_by_user
from appliance.accounts.models import RoleBinding, User
from appliance.accounts.named_rows import find_named
from appliance.accounts.permissions import can, has_scope
from appliance.accounts.places import project_at
from appliance.accounts.role_views import RoleBindingSerializer, with_names
from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import parse_text, reject_unknown_parameters
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView

USER = OpenApiParameter("user", str, description="Name of the user; the caller if absent.")
OBJECT = OpenApiParameter(
    "object",
    str,
    description="`KIND/ID`, such as `projects/ID` or `allocations/ID`. Without it only what the "
    "user may do on the whole appliance is listed.",
)


class PrivilegeSourceSerializer(serializers.Serializer[dict[str, Any]]):
    name = serializers.CharField(help_text="Name of the privilege.")
    bindings = RoleBindingSerializer(many=True, help_text="The role bindings that grant it.")


class AccessSerializer(serializers.Serializer[dict[str, Any]]):
    user = serializers.CharField()
    object = serializers.CharField(allow_blank=True)
    privileges = PrivilegeSourceSerializer(many=True)


def privilege_sources(user: User, project_id: UUID | None) -> dict[str, list[RoleBinding]]:
    """Return the bindings that grant each privilege in the project, or on the appliance."""
    groups = groups_by_user({user.pk}).get(user.pk, set())
    rows = RoleBinding.objects.filter(Q(user=user) | Q(group_id__in=groups))
    bindings = list(with_names(rows).order_by("pk"))
    columns = [Row(*(getattr(b, name) for name in Row._fields)) for b in bindings]
    found: dict[str, list[RoleBinding]] = {}
    for binding, grants in zip(bindings, grants_of(columns), strict=True):
        held = [g.privileges for g in grants if g.project_id in (None, project_id)]
        for name in sorted(frozenset[str]().union(*held)):
            found.setdefault(name, []).append(binding)
    return found


class AccessView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self"}
    extra_error_statuses: ClassVar[frozenset[int]] = frozenset({404})

    @extend_schema(
        operation_id="access_retrieve", parameters=[USER, OBJECT], responses=AccessSerializer
    )
    def get(self, request: Request) -> Response:
        """Return the privileges of a user at an object, with the bindings that grant them.

        For other users this needs `accounts.manage`, or `members.manage` in the project of the
        object. Some operations need more: only the owner of an allocation gets its tickets.
        """
        reject_unknown_parameters(request, ["user", "object"])
        viewer = request_user(request)
        place = request.query_params.get("object", "")
        project_id = project_at(viewer, place)
        user = self.subject(viewer, request.query_params.get("user", ""), project_id)
        sources = privilege_sources(user, project_id)
        own = user.pk == viewer.pk
        privileges = [
            {"name": name, "bindings": [serialize(RoleBindingSerializer, b) for b in bindings]}
            for name, bindings in sorted(sources.items())
            if not own or has_scope(viewer, name)
        ]
        return Response({"user": user.username, "object": place, "privileges": privileges})

    @staticmethod
    def subject(viewer: User, name: str, project_id: UUID | None) -> User:
        """Return the user of whom the viewer may ask. Raises ApplianceError."""
        if name in ("", viewer.username):
            return viewer
        if not can(viewer, "accounts.manage", None) and not (
            project_id and can(viewer, "members.manage", project_id)
        ):
            raise ApplianceError(
                Code.DENIED, "You may ask for your own access and for that of members you manage."
            )
        return find_named(User, noun="User", column="username", name=parse_text(name))
