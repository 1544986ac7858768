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
from appliance.accounts.bindings import groups_by_user, held_of, row_of
from appliance.accounts.models import RoleBinding, User
from appliance.accounts.named_rows import find_named
from appliance.accounts.permissions import can, has_scope
from appliance.accounts.places import Place, place_at
from appliance.accounts.role_views import RoleBindingSerializer, with_names
from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import parse_text, reject_unknown_parameters
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, ErrorCodes

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


def privilege_sources(user: User, place: Place) -> dict[str, list[RoleBinding]]:
    """Return the bindings that grant each privilege at the place."""
    groups = groups_by_user({user.pk}).get(user.pk, set())
    rows = RoleBinding.objects.filter(Q(user=user) | Q(group_id__in=groups))
    bindings = list(with_names(rows).order_by("pk"))
    found: dict[str, list[RoleBinding]] = {}
    for binding, held in zip(bindings, held_of(map(row_of, bindings)), strict=True):
        names = [g.privileges for g in held.grants if g.project_id in (None, place.project_id)]
        names += [g.privileges for g in held.inventory if g.place_id in place.inventory]
        if place.department_id and binding.department_id == place.department_id:
            of_department = held_of([row_of(binding)], future=True)[0]  # it may have no project
            names += [g.privileges for g in of_department.grants]
        for name in sorted(frozenset[str]().union(*names)):
            found.setdefault(name, []).append(binding)
    return found


class AccessView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self"}
    error_codes: ClassVar[ErrorCodes] = {"GET": (Code.NOT_FOUND,)}

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
        name = request.query_params.get("object", "")
        place = place_at(viewer, name)
        user = self.subject(viewer, request.query_params.get("user", ""), place.project_id)
        sources = privilege_sources(user, place)
        own = user.pk == viewer.pk
        privileges = [
            {"name": held, "bindings": [serialize(RoleBindingSerializer, b) for b in bindings]}
            for held, bindings in sorted(sources.items())
            if not own or has_scope(viewer, held)
        ]
        return Response({"user": user.username, "object": name, "privileges": privileges})

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
