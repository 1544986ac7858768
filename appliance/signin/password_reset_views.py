"""REST views for a forgotten password: ask for a code, and set a password with it."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.api.errors import Code
from appliance.api.fields import TextField
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.signin import password_resets


class PasswordResetSerializer(RequestSerializer[dict[str, Any]]):
    username = TextField(max_length=150)


class PasswordResetCompletionSerializer(RequestSerializer[dict[str, Any]]):
    username = TextField(max_length=150)
    code = TextField(max_length=100, help_text="The code of the mail.")
    new_password = TextField(
        max_length=500, trim_whitespace=False, help_text="The password to set."
    )


class PasswordResetListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    login_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    error_codes: ClassVar[ErrorCodes] = {"POST": (Code.CONFLICT, Code.TOO_MANY_ATTEMPTS)}
    dry_run_supported: ClassVar[bool] = False  # it sends a mail

    @extend_schema(request=PasswordResetSerializer, responses={202: None}, auth=[])
    def post(self, request: Request) -> Response:
        """Send a code for a new password to the address of an account.

        The response is the same whether the account exists. A mail is sent to active accounts with
        an address and a password of the appliance, at most every five minutes. The code is valid
        for an hour. The password stays valid.
        """
        form = PasswordResetSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        password_resets.request_reset(username=form.validated_data["username"])
        return Response(status=202)


class PasswordResetCompletionView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    login_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    error_codes: ClassVar[ErrorCodes] = {"POST": (Code.UNAUTHENTICATED, Code.TOO_MANY_ATTEMPTS)}

    @extend_schema(request=PasswordResetCompletionSerializer, responses={204: None}, auth=[])
    def post(self, request: Request) -> Response:
        """Set a new password with the code of a mail. All tokens of the account end.

        A second factor stays: sign in with it and the new password.
        """
        form = PasswordResetCompletionSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        password_resets.complete_reset(**form.validated_data)
        return Response(status=204)
