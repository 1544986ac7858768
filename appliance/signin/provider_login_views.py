"""Sign-in of the console with an identity provider (OpenID Connect)."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import FOREIGN_ORIGIN, has_own_origin
from appliance.accounts.models import User
from appliance.accounts.views import MeSerializer
from appliance.api.errors import ApplianceError, Code
from appliance.api.fields import TextField
from appliance.api.problems import problem
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.configuration import mail
from appliance.db import origin
from appliance.signin import directory_entry, passkey_protocol, provider_logins
from appliance.signin.login_views import (
    CONSOLE_LIFETIME,
    LOGIN_ERRORS,
    PASSKEY,
    SignedInSerializer,
    new_token,
    prove_second_factor,
    set_console_cookie,
)
from appliance.signin.provider_logins import PROVED_COOKIE, VISIT_COOKIE, Proved


class ProviderSerializer(serializers.Serializer[dict[str, str]]):
    id = serializers.CharField()
    name = serializers.CharField(help_text="What the button of the sign-in page says.")


class SignInOptionsSerializer(serializers.Serializer[dict[str, Any]]):
    providers = ProviderSerializer(many=True)
    has_directory = serializers.BooleanField(
        help_text="Whether passwords of a directory (LDAP) are accepted."
    )
    has_passkeys = serializers.BooleanField(
        help_text="True if users can sign in with passkeys; see `sign_in.passkey_domain`."
    )
    has_password_resets = serializers.BooleanField(
        help_text="True if a code for a new password can be sent by mail."
    )


class ProviderLoginRequestSerializer(RequestSerializer[dict[str, str]]):
    provider = TextField(max_length=50, help_text="Id of the provider.")


class ProviderLoginSerializer(serializers.Serializer[dict[str, str]]):
    authorization_url = serializers.CharField(help_text="Where to send the browser.")


class ProviderReturnSerializer(RequestSerializer[dict[str, Any]]):
    authorization_code = TextField(
        max_length=4096,
        trim_whitespace=False,
        required=False,
        help_text="`code` of the address with which the browser comes back. Absent when a login "
        "that lacked a second factor is repeated.",
    )
    state = TextField(
        max_length=200,
        trim_whitespace=False,
        required=False,
        help_text="`state` of that address.",
    )
    code = TextField(max_length=50, required=False, help_text="The second factor, as for `login`.")
    passkey = PASSKEY


def require_own_origin(request: Request) -> None:
    if not has_own_origin(request._request):
        raise ApplianceError(Code.DENIED, FOREIGN_ORIGIN)


def set_private_cookie(response: Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        name, value, max_age=seconds, secure=True, httponly=True, samesite="Strict", path="/"
    )


class SignInOptionsView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "public"}

    @extend_schema(responses=SignInOptionsSerializer, auth=[])
    def get(self, request: Request) -> Response:
        """Return the ways to sign in beside a password of the appliance."""
        found = settings.ENVIRONMENT.oidc_providers
        return Response(
            {
                "providers": [{"id": p.id, "name": p.name} for p in found],
                "has_directory": directory_entry.is_configured(),
                "has_passkeys": passkey_protocol.is_enabled(),
                "has_password_resets": mail.is_set_up(),
            }
        )


class ProviderLoginView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    provider_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.DENIED, Code.NOT_FOUND, Code.PROVIDER_UNAVAILABLE)
    }

    @extend_schema(
        request=ProviderLoginRequestSerializer, responses=ProviderLoginSerializer, auth=[]
    )
    def post(self, request: Request) -> Response:
        """Begin a sign-in of the console with an identity provider.

        Sets a cookie for 10 minutes.
        """
        form = ProviderLoginRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        require_own_origin(request)
        url, cookie = provider_logins.begin(form.validated_data["provider"])
        response = Response({"authorization_url": url})
        set_private_cookie(response, VISIT_COOKIE, cookie, provider_logins.VISIT_SECONDS)
        return response


class ProviderReturnView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    provider_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (*LOGIN_ERRORS, Code.GONE, Code.PROVIDER_UNAVAILABLE)
    }

    @extend_schema(request=ProviderReturnSerializer, responses=SignedInSerializer, auth=[])
    def post(self, request: Request) -> Response:
        """Finish a sign-in with an identity provider. The token is set as for `browser-login`.

        If a second factor is missing, repeat the request with its `code` alone.
        """
        form = ProviderReturnSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        require_own_origin(request)
        values = form.validated_data
        found = self._identify(request, values)
        user = provider_logins.user_of(found)
        origin.act_as(user.username)
        try:
            codes = (
                []
                if found.has_second_factor
                else prove_second_factor(user, values, sets_password=False)
            )
        except ApplianceError as error:
            return self._refused(request, error, found if "authorization_code" in values else None)
        return self._signed_in(user, codes)

    @staticmethod
    def _identify(request: Request, values: dict[str, Any]) -> Proved:
        if "authorization_code" not in values:
            cookie = request.COOKIES.get(PROVED_COOKIE, "")
            seconds = provider_logins.PROVED_SECONDS
            return Proved(**provider_logins.opened(cookie, PROVED_COOKIE, seconds))
        return provider_logins.complete(
            cookie=request.COOKIES.get(VISIT_COOKIE, ""),
            state=values.get("state", ""),
            code=values["authorization_code"],
        )

    @staticmethod
    def _refused(request: Request, error: ApplianceError, found: Proved | None) -> Response:
        """Return the problem, with a cookie that keeps what the provider has proved just now."""
        response = problem(error.code, error.detail, request, None, **error.fields)
        if found is None:
            return response
        cookie = provider_logins.proved_cookie(found)
        set_private_cookie(response, PROVED_COOKIE, cookie, provider_logins.PROVED_SECONDS)
        response.delete_cookie(VISIT_COOKIE, path="/", samesite="Strict")
        return response

    @staticmethod
    def _signed_in(user: User, codes: list[str]) -> Response:
        response = Response(MeSerializer(user).data | {"recovery_codes": codes})
        set_console_cookie(response, new_token(user, "console", CONSOLE_LIFETIME))
        for name in (VISIT_COOKIE, PROVED_COOKIE):
            response.delete_cookie(name, path="/", samesite="Strict")
        return response
