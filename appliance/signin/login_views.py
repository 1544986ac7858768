"""Login with a password, and a code where the account has a second factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from django.contrib.auth.password_validation import validate_password
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import services
from appliance.accounts.authentication import CONSOLE_COOKIE, FOREIGN_ORIGIN, has_own_origin
from appliance.accounts.models import ApiToken, User
from appliance.accounts.second_factor_policy import is_asked, is_required
from appliance.accounts.views import MeSerializer
from appliance.api.errors import ApplianceError, Code
from appliance.api.fields import TextField
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.db import origin
from appliance.db.writer import write_transaction
from appliance.signin import directory_logins, passkeys, second_factors
from appliance.signin.second_factor_secret import secret_fields

TOKEN_LIFETIME = timedelta(days=30)
CONSOLE_LIFETIME = timedelta(hours=12)
RECOVERY_CODES = serializers.ListField(
    child=serializers.CharField(),
    help_text="Recovery codes, if this login has set up a second factor. Returned only once.",
)


PASSKEY = serializers.DictField(
    required=False,
    help_text="The browser's answer to `passkey_options` of the problem "
    "`second_factor_required`, in place of `code`.",
)


class LoginSerializer(RequestSerializer[dict[str, Any]]):
    username = TextField(max_length=150)
    password = TextField(max_length=500, trim_whitespace=False)
    new_password = TextField(
        max_length=500,
        trim_whitespace=False,
        required=False,
        help_text="The password to set. Required if the current password is a one-time password.",
    )
    code = TextField(
        max_length=50,
        required=False,
        help_text="The code of the authenticator app, or a recovery code. Required if the account "
        "has a second factor, or confirms the new one that a policy requires.",
    )
    passkey = PASSKEY


class TokenSerializer(serializers.Serializer[dict[str, str]]):
    token = serializers.CharField(help_text="The API token. It is returned only once.")
    must_change_password = serializers.BooleanField()
    recovery_codes = RECOVERY_CODES


class SignedInSerializer(MeSerializer):
    recovery_codes = RECOVERY_CODES

    class Meta(MeSerializer.Meta):
        fields = (*MeSerializer.Meta.fields, "recovery_codes")
        read_only_fields = MeSerializer.Meta.fields


@dataclass(frozen=True)
class SignIn:
    user: User
    recovery_codes: list[str]
    """Of the second factor that this sign-in has set up; empty if it has not."""


def log_in(request: Request) -> SignIn:
    """Return the user of a login request, after a password change if it has `new_password`."""
    form = LoginSerializer(data=request.data)
    form.is_valid(raise_exception=True)
    values = form.validated_data
    user = check_password(values["username"], values["password"])
    origin.act_as(user.username)
    new_password = values.get("new_password")
    if new_password and user.source:
        raise ApplianceError(Code.CONFLICT, "Change your password in the directory.")
    if new_password:
        validate_password(new_password, user)  # before the code is used up
    codes = prove_second_factor(user, values, sets_password=bool(new_password))
    if new_password:
        services.password_change(user=user, new_password=new_password)
    return SignIn(user, codes)


def check_password(username: str, password: str) -> User:
    """Return the user with this password, of the appliance or of the directory."""
    if directory_logins.asks_directory(username):
        return directory_logins.login(username=username, password=password)
    return services.login(username=username, password=password)


def prove_second_factor(user: User, values: Mapping[str, Any], *, sets_password: bool) -> list[str]:
    """Check the code or passkey of a user whose password was right, or set up a required factor.

    Returns new recovery codes, if it has set one up. Raises ApplianceError for a missing or wrong
    code. A code is valid once, so a required password change must come with it.
    """
    code, passkey = values.get("code", ""), values.get("passkey")
    asked = is_asked(user)
    if not asked and not is_required(user):
        return []
    if (code or passkey) and user.must_change_password and not sets_password:
        raise ApplianceError(
            Code.PASSWORD_CHANGE_REQUIRED, "Repeat the login with `new_password` and a code."
        )
    if asked:
        if passkey:
            passkeys.check(user=user, credential=passkey)
        elif code:
            second_factors.check(user=user, code=code)
        else:
            raise code_required(user)
        return []
    return set_up(user, code)


def code_required(user: User) -> ApplianceError:
    options = passkeys.login_options(user)
    return ApplianceError(
        Code.SECOND_FACTOR_REQUIRED,
        "Enter the code of your authenticator app, or a recovery code.",
        must_change_password=user.must_change_password,
        **({"passkey_options": options} if options else {}),
    )


def set_up(user: User, code: str) -> list[str]:
    if not code:
        raise ApplianceError(
            Code.SECOND_FACTOR_SETUP_REQUIRED,
            "A second factor is required of your account. Add the secret to an authenticator app "
            "and repeat the login with its code.",
            must_change_password=user.must_change_password,
            **secret_fields(second_factors.begin(user=user), user),
        )
    codes = second_factors.confirm(user=user, code=code)
    if codes is None:
        raise ApplianceError(Code.UNAUTHENTICATED, "Wrong code. Try the next one.")
    return codes


@write_transaction
def new_token(user: User, name: str, lifetime: timedelta) -> str:
    """Return a new token of a user who has proved who they are.

    Raises ApplianceError UNAUTHENTICATED if second factors were set up or removed since `user` was
    read: that ends all sign-ins, and this one would begin after their end.
    """
    now = User.objects.filter(pk=user.pk).values_list("second_factor_since", flat=True).first()
    if now != user.second_factor_since:
        raise ApplianceError(Code.UNAUTHENTICATED, "The account has changed. Sign in again.")
    _, text = services.token_create(user=user, name=name, lifetime=lifetime, is_sign_in=True)
    return text


LOGIN_ERRORS = (
    Code.UNAUTHENTICATED,
    Code.DENIED,
    Code.PASSWORD_CHANGE_REQUIRED,
    Code.SECOND_FACTOR_REQUIRED,
    Code.SECOND_FACTOR_SETUP_REQUIRED,
    Code.TOO_MANY_ATTEMPTS,
    Code.DIRECTORY_UNAVAILABLE,
)


class LoginView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    login_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    error_codes: ClassVar[ErrorCodes] = {"POST": LOGIN_ERRORS}

    @extend_schema(request=LoginSerializer, responses=TokenSerializer, auth=[])
    def post(self, request: Request) -> Response:
        """Create an API token for a username and password. The token expires after 30 days.

        With a second factor the first answer is `second_factor_required`; repeat the request with
        its `code`. Where a policy requires a second factor that is not set up, it is
        `second_factor_setup_required` with a new secret.
        """
        signed_in = log_in(request)
        return Response(
            {
                "token": new_token(signed_in.user, "login", TOKEN_LIFETIME),
                "must_change_password": signed_in.user.must_change_password,
                "recovery_codes": signed_in.recovery_codes,
            }
        )


class BrowserLoginView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public", "DELETE": "account.self"}
    login_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    error_codes: ClassVar[ErrorCodes] = {"POST": LOGIN_ERRORS}
    dry_run_supported: ClassVar[bool] = False  # the response changes the browser's cookie

    @extend_schema(request=LoginSerializer, responses=SignedInSerializer, auth=[])
    def post(self, request: Request) -> Response:
        """Sign in to the console. The token is set as an HttpOnly cookie for 12 hours.

        With a one-time password and no `new_password`, no cookie is set. Second factors are as
        for `login`.
        """
        if not has_own_origin(request._request):
            raise ApplianceError(Code.DENIED, FOREIGN_ORIGIN)
        signed_in = log_in(request)
        content = MeSerializer(signed_in.user).data
        response = Response(content | {"recovery_codes": signed_in.recovery_codes})
        if not signed_in.user.must_change_password:
            set_console_cookie(response, new_token(signed_in.user, "console", CONSOLE_LIFETIME))
        return response

    @extend_schema(responses={204: None})
    def delete(self, request: Request) -> Response:
        """Sign out: revoke the token of this request and delete the console's cookie."""
        if isinstance(request.auth, ApiToken):
            services.token_revoke(token_id=request.auth.pk)
        response = Response(status=204)
        response.delete_cookie(CONSOLE_COOKIE, path="/", samesite="Strict")
        return response


def set_console_cookie(response: Response, token_text: str) -> None:
    response.set_cookie(
        CONSOLE_COOKIE,
        token_text,
        max_age=CONSOLE_LIFETIME,
        secure=True,
        httponly=True,
        samesite="Strict",
        path="/",
    )
