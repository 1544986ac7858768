"""Sign-in of the console with a passkey, without a password."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.views import MeSerializer
from appliance.api.errors import Code
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.db import origin
from appliance.signin import passkey_protocol, passkeys
from appliance.signin.login_views import CONSOLE_LIFETIME, new_token, set_console_cookie
from appliance.signin.passkey_views import ANSWER, PasskeyOptionsSerializer
from appliance.signin.provider_login_views import require_own_origin


class PasskeyLoginSerializer(RequestSerializer[dict[str, Any]]):
    credential = serializers.DictField(help_text=ANSWER)


class PasskeyLoginOptionsView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "public"}
    error_codes: ClassVar[ErrorCodes] = {"GET": (Code.CONFLICT,)}

    @extend_schema(responses=PasskeyOptionsSerializer, auth=[])
    def get(self, request: Request) -> Response:
        """Return the options with which a browser asks for a passkey of any account."""
        found = passkey_protocol.request_options(passkey_protocol.SIGN_IN, None)
        return Response({"options": found})


class PasskeyLoginView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    provider_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (
            Code.UNAUTHENTICATED,
            Code.DENIED,
            Code.CONFLICT,
            Code.PASSWORD_CHANGE_REQUIRED,
        )
    }

    @extend_schema(request=PasskeyLoginSerializer, responses=MeSerializer, auth=[])
    def post(self, request: Request) -> Response:
        """Sign in to the console with a passkey. The token is set as for `browser-login`.

        The device has asked for its PIN or for biometrics, so no other factor is asked for.
        """
        form = PasskeyLoginSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        require_own_origin(request)
        user = passkeys.sign_in(credential=form.validated_data["credential"])
        origin.act_as(user.username)
        response = Response(MeSerializer(user).data)
        set_console_cookie(response, new_token(user, "console", CONSOLE_LIFETIME))
        return response
