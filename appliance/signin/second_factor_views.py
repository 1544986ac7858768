"""REST resource second factor: that of the caller, and its removal by administrators."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import users
from appliance.accounts.authentication import request_user
from appliance.accounts.authorization import denied
from appliance.accounts.models import User
from appliance.accounts.permissions import has_scope
from appliance.accounts.second_factor_policy import Policy, is_required, policy
from appliance.accounts.token_views import token_of
from appliance.accounts.user_views import USERS
from appliance.api.errors import Code
from appliance.api.fields import TextField
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.signin import passkey_protocol, second_factors
from appliance.signin.fresh_sign_in import require_fresh_sign_in
from appliance.signin.models import SecondFactor
from appliance.signin.second_factor_secret import SecretSerializer, secret_fields


class SecondFactorSerializer(serializers.Serializer[dict[str, Any]]):
    policy = serializers.ChoiceField(
        choices=[p.value for p in Policy], help_text="The setting `sign_in.second_factor`."
    )
    is_required = serializers.BooleanField(
        help_text="Whether the policy requires one of the caller."
    )
    since = serializers.DateTimeField(allow_null=True, help_text="Null without a second factor.")
    recovery_codes_left = serializers.IntegerField()
    has_app = serializers.BooleanField(help_text="True if the user has an authenticator app.")
    takes_passkeys = serializers.BooleanField(
        help_text="True if users can add passkeys. The setting is `sign_in.passkey_domain`."
    )


class CodeSerializer(RequestSerializer[dict[str, str]]):
    code = TextField(max_length=50, help_text="The code that the app shows now.")


class RecoveryCodesSerializer(serializers.Serializer[dict[str, object]]):
    recovery_codes = serializers.ListField(
        child=serializers.CharField(),
        help_text="Each replaces one code of the app, once. Returned only once.",
    )


def require_self(request: Request) -> User:
    """Return the user of the request. Raises ApplianceError DENIED without scope account.self."""
    user = request_user(request)
    if not has_scope(user, "account.self"):
        raise denied("account.self")
    return user


FRESH = (Code.FRESH_SIGN_IN_REQUIRED, Code.TOO_MANY_ATTEMPTS)


class SecondFactorView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = dict.fromkeys(("GET", "POST", "DELETE"), "account.self")
    error_codes: ClassVar[ErrorCodes] = {"POST": FRESH, "DELETE": FRESH}
    dry_run_supported: ClassVar[bool] = False  # a secret is returned once
    returns_secret: ClassVar[bool] = True
    without_body: ClassVar[bool] = True

    @extend_schema(responses=SecondFactorSerializer)
    def get(self, request: Request) -> Response:
        """Return whether the caller has a second factor, and whether one is required."""
        user = require_self(request)
        row = SecondFactor.objects.filter(user=user).first()
        return Response(
            {
                "policy": policy().value,
                "is_required": is_required(user),
                "since": user.second_factor_since,
                "recovery_codes_left": len(row.recovery_sha256) if row else 0,
                "has_app": bool(row and row.secret),
                "takes_passkeys": passkey_protocol.is_enabled(),
            }
        )

    @extend_schema(request=None, responses=SecretSerializer)
    def post(self, request: Request) -> Response:
        """Begin to set up a second factor, or to replace it. Confirm it within 15 minutes.

        Needs a sign-in of the last 10 minutes.
        """
        user = require_self(request)
        require_fresh_sign_in(token_of(request))
        return Response(secret_fields(second_factors.begin(user=user), user))

    @extend_schema(responses={204: None})
    def delete(self, request: Request) -> Response:
        """Remove the second factor, with all passkeys. Needs a sign-in of the last 10 minutes.

        Fails with `conflict` if the policy requires one.
        """
        user = require_self(request)
        require_fresh_sign_in(token_of(request))
        second_factors.remove(user=user)
        return Response(status=204)


class SecondFactorConfirmationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "account.self"}
    error_codes: ClassVar[ErrorCodes] = {"POST": FRESH}
    dry_run_supported: ClassVar[bool] = False
    returns_secret: ClassVar[bool] = True

    @extend_schema(request=CodeSerializer, responses=RecoveryCodesSerializer)
    def post(self, request: Request) -> Response:
        """Use the new secret after a code of it. Ends the other sign-ins of the caller."""
        form = CodeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        user = require_self(request)
        require_fresh_sign_in(token_of(request))
        codes = second_factors.confirm(
            user=user, code=form.validated_data["code"].strip(), sign_in=token_of(request)
        )
        if codes is None:
            raise serializers.ValidationError({"code": ["Wrong code. Try the next one."]})
        return Response({"recovery_codes": codes})


class RecoveryCodeListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "account.self"}
    error_codes: ClassVar[ErrorCodes] = {"POST": FRESH}
    dry_run_supported: ClassVar[bool] = False
    returns_secret: ClassVar[bool] = True
    without_body: ClassVar[bool] = True

    @extend_schema(request=None, responses=RecoveryCodesSerializer)
    def post(self, request: Request) -> Response:
        """Replace the recovery codes. Needs a sign-in of the last 10 minutes."""
        user = require_self(request)
        require_fresh_sign_in(token_of(request))
        return Response({"recovery_codes": second_factors.replace_recovery_codes(user=user)})


class UserSecondFactorView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"DELETE": users.RESET_SECOND_FACTOR.privilege}

    @USERS.deletes()
    def delete(self, actor: User, user: User) -> None:
        """Remove the second factor of a user who has lost it. Their sign-ins end.

        Fails with `conflict` for users without one and for the caller, whose own one is removed
        with `second-factor`.
        """
        second_factors.reset(user=user, actor=actor)
