"""REST resource device login: sign-in with a code that a signed-in user approves."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.token_views import token_of
from appliance.api.errors import ApplianceError, Code
from appliance.api.fields import TextField
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.signin import device_logins
from appliance.signin.models import DeviceLogin
from appliance.signin.second_factor_views import require_self

APPROVAL_PATH = "/approve"


class DeviceLoginRequestSerializer(RequestSerializer[dict[str, str]]):
    client = TextField(
        max_length=100,
        required=False,
        allow_blank=True,
        help_text="Name of the device, which the approving user sees. It is not verified.",
    )


class NewDeviceLoginSerializer(serializers.Serializer[dict[str, Any]]):
    device_code = serializers.CharField(
        help_text="Secret of the device, with which it takes its token. Returned only once."
    )
    code = serializers.CharField(help_text="What the device shows and the user types.")
    approval_path = serializers.CharField(help_text="Page of the console where it is typed.")
    expires_at = serializers.DateTimeField()
    interval_seconds = serializers.IntegerField(help_text="Time between requests for the token.")


class DeviceTokenRequestSerializer(RequestSerializer[dict[str, str]]):
    device_code = TextField(max_length=200)


class DeviceTokenSerializer(serializers.Serializer[dict[str, str]]):
    token = serializers.CharField(help_text="The API token. It is returned only once.")
    username = serializers.CharField(help_text="The user who approved.")


class DeviceLoginSerializer(serializers.ModelSerializer[DeviceLogin]):
    class Meta:
        model = DeviceLogin
        fields = ("code", "client", "address", "created_at", "expires_at")
        read_only_fields = fields


class DeviceLoginListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    returns_secret: ClassVar[bool] = True
    error_codes: ClassVar[ErrorCodes] = {"POST": (Code.TOO_MANY_ATTEMPTS,)}

    @extend_schema(
        request=DeviceLoginRequestSerializer, responses={201: NewDeviceLoginSerializer}, auth=[]
    )
    def post(self, request: Request) -> Response:
        """Begin a sign-in without a password. It ends after 10 minutes.

        Show `code` to the user, who approves it in the console, and ask `device-logins/token`
        every `interval_seconds`.
        """
        form = DeviceLoginRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        row, device_code = device_logins.begin(
            client=form.validated_data.get("client", ""),
            address=str(request.META.get("REMOTE_ADDR", "")),
        )
        content = {
            "device_code": device_code,
            "code": row.code,
            "approval_path": APPROVAL_PATH,
            "expires_at": row.expires_at,
            "interval_seconds": device_logins.POLL_SECONDS,
        }
        return Response(serialize(NewDeviceLoginSerializer, content), status=201)


class DeviceTokenView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    returns_secret: ClassVar[bool] = True
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.DENIED, Code.DEVICE_LOGIN_PENDING, Code.GONE, Code.TOO_MANY_ATTEMPTS)
    }

    @extend_schema(request=DeviceTokenRequestSerializer, responses=DeviceTokenSerializer, auth=[])
    def post(self, request: Request) -> Response:
        """Return the token of a sign-in that a user has approved. Works once.

        Until then it fails with `device_login_pending`. The token has the scopes and networks of
        the one that approved, and ends after 30 days or with a program's token that approved.
        """
        form = DeviceTokenRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        user, text = device_logins.redeem(device_code=form.validated_data["device_code"])
        return Response({"token": text, "username": user.username})


class DeviceLoginView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self"}
    error_codes: ClassVar[ErrorCodes] = {"GET": (Code.TOO_MANY_ATTEMPTS,)}

    @extend_schema(responses=DeviceLoginSerializer)
    def get(self, request: Request, code: str) -> Response:
        """Return a sign-in that waits for approval: which device asks, and from where."""
        row = device_logins.find(code=code, user=require_self(request))
        return Response(serialize(DeviceLoginSerializer, row))


def decide(request: Request, code: str, *, approves: bool) -> Response:
    user, token = require_self(request), token_of(request)
    if token is None:
        raise ApplianceError(Code.DENIED, "Only a token approves the sign-in of a device.")
    row = device_logins.decide(code=code, user=user, token=token, approves=approves)
    return Response(serialize(DeviceLoginSerializer, row))


class DeviceLoginApproveView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "account.self"}
    error_codes: ClassVar[ErrorCodes] = {"POST": (Code.TOO_MANY_ATTEMPTS,)}
    without_body: ClassVar[bool] = True

    @extend_schema(request=None, responses=DeviceLoginSerializer)
    def post(self, request: Request, code: str) -> Response:
        """Sign a device in as the caller. Approve only what you have started yourself."""
        return decide(request, code, approves=True)


class DeviceLoginDenyView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "account.self"}
    error_codes: ClassVar[ErrorCodes] = {"POST": (Code.TOO_MANY_ATTEMPTS,)}
    without_body: ClassVar[bool] = True

    @extend_schema(request=None, responses=DeviceLoginSerializer)
    def post(self, request: Request, code: str) -> Response:
        """Refuse the sign-in of a device."""
        return decide(request, code, approves=False)
