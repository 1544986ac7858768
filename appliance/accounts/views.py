"""Login and the caller's own account."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import services
from appliance.accounts.authentication import COOKIE, own_origin
from appliance.accounts.models import ApiToken, RoleBinding, User
from appliance.accounts.permissions import grants_of
from appliance.errors import ApplianceError, Code
from appliance.rest import ApplianceView, caller

TOKEN_LIFE = timedelta(days=30)
BROWSER_LIFE = timedelta(hours=12)


class LoginSerializer(serializers.Serializer[dict[str, str]]):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=500)
    new_password = serializers.CharField(
        max_length=500, required=False, help_text="Needed when the password is one-time."
    )


class TokenSerializer(serializers.Serializer[dict[str, str]]):
    token = serializers.CharField(help_text="Shown once.")
    must_change_password = serializers.BooleanField()


class BindingSerializer(serializers.ModelSerializer[RoleBinding]):
    project = serializers.CharField(
        source="project.name", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = RoleBinding
        fields = ("role", "project")


class MeSerializer(serializers.Serializer[dict[str, object]]):
    id = serializers.UUIDField()
    username = serializers.CharField()
    must_change_password = serializers.BooleanField()
    roles = BindingSerializer(many=True)
    privileges = serializers.ListField(
        child=serializers.CharField(),
        help_text="Of all roles together; each answer to a request has the last word.",
    )


class LoginView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    refusals: ClassVar[frozenset[int]] = frozenset({401, 403, 429})

    @extend_schema(request=LoginSerializer, responses=TokenSerializer, auth=[])
    def post(self, request: Request) -> Response:
        form = LoginSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        user = services.login(
            username=form.validated_data["username"], password=form.validated_data["password"]
        )
        if new := form.validated_data.get("new_password"):
            services.password_change(user=user, new_password=new)
        _, text = services.token_create(user=user, name="login", life=TOKEN_LIFE)
        return Response({"token": text, "must_change_password": user.must_change_password})


class BrowserLoginView(ApplianceView):
    """The console signs in: the token goes into a cookie that the page's scripts cannot read."""

    privileges: ClassVar[dict[str, str]] = {"POST": "public", "DELETE": "account.self"}
    refusals: ClassVar[frozenset[int]] = frozenset({401, 403, 429})
    dry_runs: ClassVar[bool] = False  # the browser forgets its cookie

    @extend_schema(request=LoginSerializer, responses=MeSerializer, auth=[])
    def post(self, request: Request) -> Response:
        if not own_origin(request._request):
            raise ApplianceError(
                Code.DENIED, "The request did not come from the console's own page."
            )
        form = LoginSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        user = services.login(
            username=form.validated_data["username"], password=form.validated_data["password"]
        )
        if new := form.validated_data.get("new_password"):
            services.password_change(user=user, new_password=new)
        response = Response(me(user))
        if not user.must_change_password:
            _, text = services.token_create(user=user, name="console", life=BROWSER_LIFE)
            response.set_cookie(
                COOKIE,
                text,
                max_age=BROWSER_LIFE,
                secure=True,
                httponly=True,
                samesite="Strict",
                path="/",
            )
        return response

    @extend_schema(responses={204: None})
    def delete(self, request: Request) -> Response:
        """Ends the token that asks, wherever it lies."""
        if isinstance(request.auth, ApiToken):
            services.token_revoke(token_id=request.auth.pk)
        response = Response(status=204)
        response.delete_cookie(COOKIE, path="/", samesite="Strict")
        return response


class MeView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self"}

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        return Response(me(caller(request)))


def me(user: User) -> dict[str, object]:
    bindings = RoleBinding.objects.filter(user=user).select_related("project")
    roles = [{"role": b.role, "project": b.project.name if b.project else None} for b in bindings]
    everywhere, by_project = grants_of(user)
    return {
        "id": user.pk,
        "username": user.username,
        "must_change_password": user.must_change_password,
        "roles": roles,
        "privileges": sorted(everywhere.union(*by_project.values())),
    }
