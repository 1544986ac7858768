"""REST view of what a user may do at an object, and through which role bindings."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.actions import place_at
from appliance.accounts.authentication import request_user
from appliance.accounts.bindings import groups_by_user, held_of, row_of
from appliance.accounts.models import BINDING_PLACES, RoleBinding, User
from appliance.accounts.named_rows import find_named
from appliance.accounts.permissions import can, has_scope, projects_with
from appliance.accounts.places import Place
from appliance.accounts.role_views import RoleBindingSerializer, with_names
from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import parse_text, reject_unknown_parameters
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, ErrorCodes

USER = OpenApiParameter("user", str, description="Name of the user; the caller if absent.")
OBJECT = OpenApiParameter(
    "object",
    str,
    description="`KIND/ID`, such as `projects/ID` or `allocations/ID`. Without it, `privileges` "
    "are those on the whole appliance, and `elsewhere` has the role bindings at objects.",
)
MEMBERS = "members.manage"


class PrivilegeSourceSerializer(serializers.Serializer[dict[str, Any]]):
    name = serializers.CharField(help_text="Name of the privilege.")
    bindings = RoleBindingSerializer(many=True, help_text="The role bindings that grant it.")


class AccessSerializer(serializers.Serializer[dict[str, Any]]):
    user = serializers.CharField()
    object = serializers.CharField(allow_blank=True)
    privileges = PrivilegeSourceSerializer(many=True)
    elsewhere = RoleBindingSerializer(
        many=True,
        help_text="Role bindings of the user at objects, those that you may view. Empty if an "
        "object is given.",
    )


def bindings_of(user: User) -> list[RoleBinding]:
    """Return the bindings of the user and of the groups that the user is in."""
    groups = groups_by_user({user.pk}).get(user.pk, set())
    rows = RoleBinding.objects.filter(Q(user=user) | Q(group_id__in=groups))
    return list(with_names(rows).order_by("pk"))


def bindings_elsewhere(viewer: User, user: User) -> list[RoleBinding]:
    """Return the bindings of the user at objects, those that the viewer may view.

    Administrators of projects view those that hold there. A token with scopes sees bindings of
    its user that grant something within the scopes.
    """
    placed = [
        b for b in bindings_of(user) if any(getattr(b, f"{name}_id") for name in BINDING_PLACES)
    ]
    rows = [row_of(b) for b in placed]
    if user.pk == viewer.pk:
        future = [held.grants[0] for held in held_of(rows, future=True)]
        return [
            b
            for b, grant in zip(placed, future, strict=True)
            if any(has_scope(viewer, name) for name in grant.privileges)
        ]
    managed = projects_with(viewer, MEMBERS)
    if managed is None or can(viewer, "accounts.manage", None):
        return placed
    return [
        b
        for b, held in zip(placed, held_of(rows), strict=True)
        if any(grant.project_id in managed for grant in held.grants)
    ]


def privilege_sources(user: User, place: Place) -> dict[str, list[RoleBinding]]:
    """Return the bindings that grant each privilege at the place."""
    bindings = bindings_of(user)
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

        For other users this needs `accounts.manage`, or `members.manage` on the whole appliance,
        in the project of the object or, without an object, in a project in which the user has a
        role. Some operations need more: only the owner of an allocation gets its tickets.
        """
        reject_unknown_parameters(request, ["user", "object"])
        viewer = request_user(request)
        name = request.query_params.get("object", "")
        place = place_at(viewer, name)
        user = self.subject(viewer, request.query_params.get("user", ""), name, place.project_id)
        sources = privilege_sources(user, place)
        own = user.pk == viewer.pk
        privileges = [
            {"name": held, "bindings": [serialize(RoleBindingSerializer, b) for b in bindings]}
            for held, bindings in sorted(sources.items())
            if not own or has_scope(viewer, held)
        ]
        elsewhere = [] if name else bindings_elsewhere(viewer, user)
        return Response(
            {
                "user": user.username,
                "object": name,
                "privileges": privileges,
                "elsewhere": [serialize(RoleBindingSerializer, b) for b in elsewhere],
            }
        )

    @staticmethod
    def subject(viewer: User, name: str, place: str, project_id: UUID | None) -> User:
        """Return the user of whom the viewer may ask at the place. Raises ApplianceError."""
        if name in ("", viewer.username):
            return viewer
        if can(viewer, "accounts.manage", None) or can(viewer, MEMBERS, project_id):
            return find_named(User, noun="User", column="username", name=parse_text(name))
        member = None if place else User.objects.filter(username=parse_text(name)).first()
        if member is None or not bindings_elsewhere(viewer, member):
            raise ApplianceError(
                Code.DENIED, "You may ask for your own access and for that of members you manage."
            )
        return member
