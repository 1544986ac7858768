"""Login, logout and the caller's own account."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.db.models import Q
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import services
from appliance.accounts.authentication import (
    CONSOLE_COOKIE,
    FOREIGN_ORIGIN,
    has_own_origin,
    request_user,
)
from appliance.accounts.bindings import groups_by_user
from appliance.accounts.models import ApiToken, RoleBinding, User
from appliance.accounts.permissions import held, privileges_of
from appliance.accounts.role_views import RoleBindingSerializer, with_names
from appliance.api.errors import ApplianceError, Code
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView
from appliance.db import origin

TOKEN_LIFETIME = timedelta(days=30)
CONSOLE_LIFETIME = timedelta(hours=12)


class LoginSerializer(RequestSerializer[dict[str, str]]):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=500)
    new_password = serializers.CharField(
        max_length=500,
        required=False,
        help_text="The password to set. Required if the current password is a one-time password.",
    )


class TokenSerializer(serializers.Serializer[dict[str, str]]):
    token = serializers.CharField(help_text="The API token. It is returned only once.")
    must_change_password = serializers.BooleanField()


class MeSerializer(serializers.ModelSerializer[User]):
    username = serializers.CharField(read_only=True)
    roles = serializers.SerializerMethodField(
        help_text="The role bindings of the user and of the groups that the user is in."
    )
    privileges = serializers.SerializerMethodField(
        help_text="All privileges of the roles. Some may apply to certain projects, or objects of "
        "the inventory, only."
    )

    class Meta:
        model = User
        fields = ("id", "username", "must_change_password", "roles", "privileges")
        read_only_fields = fields

    @extend_schema_field(RoleBindingSerializer(many=True))
    def get_roles(self, user: User) -> list[dict[str, object]]:
        groups = groups_by_user({user.pk}).get(user.pk, set())
        bindings = RoleBinding.objects.filter(Q(user=user) | Q(group_id__in=groups))
        return [serialize(RoleBindingSerializer, b) for b in with_names(bindings).order_by("pk")]

    def get_privileges(self, user: User) -> list[str]:
        appliance_wide, by_project = privileges_of(user)
        in_inventory = (grant.privileges for grant in held(user).inventory)
        return sorted(appliance_wide.union(*by_project.values(), *in_inventory))


def log_in(request: Request) -> User:
    """Return the user of a login request, after a password change if it has `new_password`."""
    form = LoginSerializer(data=request.data)
    form.is_valid(raise_exception=True)
    user = services.login(
        username=form.validated_data["username"], password=form.validated_data["password"]
    )
    origin.act_as(user.username)
    if new_password := form.validated_data.get("new_password"):
        services.password_change(user=user, new_password=new_password)
    return user


class LoginView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    login_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    extra_error_statuses: ClassVar[frozenset[int]] = frozenset({401, 403, 429})

    @extend_schema(request=LoginSerializer, responses=TokenSerializer, auth=[])
    def post(self, request: Request) -> Response:
        """Create an API token for a username and password. The token expires after 30 days."""
        user = log_in(request)
        _, text = services.token_create(
            user=user, name="login", lifetime=TOKEN_LIFETIME, is_sign_in=True
        )
        return Response({"token": text, "must_change_password": user.must_change_password})


class BrowserLoginView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public", "DELETE": "account.self"}
    login_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    extra_error_statuses: ClassVar[frozenset[int]] = frozenset({401, 403, 429})
    dry_run_supported: ClassVar[bool] = False  # the response changes the browser's cookie

    @extend_schema(request=LoginSerializer, responses=MeSerializer, auth=[])
    def post(self, request: Request) -> Response:
        """Sign in to the console. The token is set as an HttpOnly cookie for 12 hours.

        With a one-time password and no `new_password`, no cookie is set.
        """
        if not has_own_origin(request._request):
            raise ApplianceError(Code.DENIED, FOREIGN_ORIGIN)
        user = log_in(request)
        response = Response(MeSerializer(user).data)
        if not user.must_change_password:
            _, text = services.token_create(
                user=user, name="console", lifetime=CONSOLE_LIFETIME, is_sign_in=True
            )
            response.set_cookie(
                CONSOLE_COOKIE,
                text,
                max_age=CONSOLE_LIFETIME,
                secure=True,
                httponly=True,
                samesite="Strict",
                path="/",
            )
        return response

    @extend_schema(responses={204: None})
    def delete(self, request: Request) -> Response:
        """Sign out: revoke the token of this request and delete the console's cookie."""
        if isinstance(request.auth, ApiToken):
            services.token_revoke(token_id=request.auth.pk)
        response = Response(status=204)
        response.delete_cookie(CONSOLE_COOKIE, path="/", samesite="Strict")
        return response


class MeView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self"}

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """Return the caller's account with its roles and privileges."""
        return Response(MeSerializer(request_user(request)).data)
