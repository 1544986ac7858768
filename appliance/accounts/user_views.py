"""REST resource user."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import users
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import create_once
from appliance.accounts.models import Source, User
from appliance.accounts.resources import Resource, Values
from appliance.api.errors import Code
from appliance.api.fields import NameField, StrictBooleanField
from appliance.api.filters import (
    parse_boolean,
    parse_text,
)
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import RowSerializer, serialize
from appliance.api.views import ApplianceView, ErrorCodes


class UserSerializer(RowSerializer[User]):
    # Without the rules of the model, which are Django's and not those of requests.
    username = serializers.CharField(read_only=True)
    email = serializers.CharField(read_only=True)
    name = serializers.CharField(source="username", read_only=True, help_text="The same name.")
    created_at = serializers.DateTimeField(source="date_joined", read_only=True)

    is_service = serializers.BooleanField(
        read_only=True, help_text="The account is of a program: it has no password, only tokens."
    )
    source = serializers.ChoiceField(  # type: ignore[assignment]  # hides a column of the field
        choices=Source.choices,
        allow_blank=True,
        read_only=True,
        help_text="Where the password is checked: empty for a local account.",
    )
    second_factor_since = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="Null without a second factor."
    )

    class Meta:
        model = User
        fields: tuple[str, ...] = (
            "id",
            "username",
            "name",
            "email",
            "is_active",
            "is_service",
            "must_change_password",
            "source",
            "second_factor_since",
            "version",
            "created_at",
        )


class OneTimePasswordSerializer(serializers.Serializer[dict[str, str]]):
    one_time_password = serializers.CharField(
        help_text="Valid for 24 hours and for one login, which replaces it. Returned only once."
    )


class NewUserSerializer(UserSerializer):
    one_time_password = serializers.CharField(
        read_only=True,
        allow_null=True,
        help_text="Valid for 24 hours and for one login, which replaces it. Returned only once. "
        "Null for a service account.",
    )

    class Meta(UserSerializer.Meta):
        fields = (*UserSerializer.Meta.fields, "one_time_password")


class UserChangeSerializer(RequestSerializer[dict[str, Any]]):
    email = serializers.EmailField(
        max_length=254, required=False, allow_blank=True, trim_whitespace=False
    )
    is_active = StrictBooleanField(
        required=False,
        help_text="An inactive user cannot sign in. Tokens, sockets and allocations end.",
    )


class UserRequestSerializer(RequestSerializer[dict[str, Any]]):
    username = NameField(max_length=150)
    email = serializers.EmailField(
        max_length=254, required=False, allow_blank=True, trim_whitespace=False
    )

    is_service = StrictBooleanField(
        required=False,
        help_text="Create a service account: without a password, for tokens of programs.",
    )


USERS = Resource(
    UserSerializer,
    {
        "username": ("username", parse_text),
        "email": ("email", parse_text),
        "is_active": ("is_active", parse_boolean),
    },
    CREATED | {"username": Order("username"), "email": Order("email")},
    rows=lambda _: User.objects.all(),
    kind=users.USERS,
)


class UserListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "accounts.manage", "POST": "accounts.manage"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "users"}
    dry_run_supported: ClassVar[bool] = False  # a password is hashed, which takes 0.1 s

    get = USERS.lists("List users.")

    @extend_schema(request=UserRequestSerializer, responses={201: NewUserSerializer})
    def post(self, request: Request) -> Response:
        """Create a user without roles: a person with a one-time password, or a service account."""
        form = UserRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values = {"email": "", "is_service": False, **form.validated_data}
        password, encoded = users.first_password(is_service=values.pop("is_service"))

        def create() -> dict[str, Any]:
            user = users.user_create(**values, encoded=encoded)
            return serialize(UserSerializer, user) | {"one_time_password": password}

        return create_once(request, create, is_secret=True)


class UserView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "accounts.manage",
        "PATCH": users.UPDATE.privilege,
        "DELETE": users.DELETE.privilege,
    }
    error_codes: ClassVar[ErrorCodes] = {
        "DELETE": (Code.IN_USE,),
    }

    get = USERS.shows("Return one user.")

    @USERS.changes(UserChangeSerializer)
    def patch(self, actor: User, user: User, values: Values) -> User:
        """Change the address of a user, or end or restore the account."""
        return users.user_update(user_id=user.pk, actor=actor, **values)

    @USERS.deletes()
    def delete(self, actor: User, user: User) -> None:
        """Delete a user with the history of their allocations.

        Fails with `in_use` and the blockers while the user has allocations. Prefer to set
        `is_active` to false, which keeps the history.
        """
        users.user_delete(user_id=user.pk, actor=actor)


class UserResetPasswordView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": users.RESET_PASSWORD.privilege}
    without_body: ClassVar[bool] = True
    dry_run_supported: ClassVar[bool] = False  # a password is hashed, which takes 0.1 s

    @extend_schema(request=None, responses=OneTimePasswordSerializer)
    def post(self, request: Request, user_id: UUID) -> Response:
        """Set a one-time password. All tokens of the user end."""
        user = get_object_or_404(User, pk=user_id)
        password = users.reset_password(user_id=user.pk, actor=request_user(request))
        return Response({"one_time_password": password})
