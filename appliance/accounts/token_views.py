"""REST resource token."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import tokens
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import create_once
from appliance.accounts.models import ApiToken, User
from appliance.accounts.permissions import digest_of_privileges
from appliance.accounts.resources import Resource
from appliance.accounts.token_limits import SCOPE_NAMES
from appliance.accounts.token_networks import normalized
from appliance.api.errors import Code
from appliance.api.fields import NameField
from appliance.api.filters import parse_id, parse_text, parse_time
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import RowSerializer, serialize
from appliance.api.views import ApplianceView, ErrorCodes

MAX_LIFETIME_SECONDS = 366 * 86400
MAX_NETWORKS = 100


def token_of(request: Request) -> ApiToken | None:
    """Return the token that authenticated the request, if one did."""
    return request.auth if isinstance(request.auth, ApiToken) else None


# The secret of a token is never read again.
class ApiTokenSerializer(RowSerializer[ApiToken]):
    user = serializers.CharField(source="user.username", read_only=True)
    scopes = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Privileges that the token may use; all of its user if empty.",
    )
    networks = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Networks from which the token is valid; all if empty.",
    )
    last_used_at = serializers.DateTimeField(
        read_only=True,
        allow_null=True,
        help_text="Minute of the last use, which is stored about two minutes later.",
    )
    last_used_address = serializers.CharField(
        read_only=True, help_text="Address of the client at the last use; empty before it."
    )

    class Meta:
        model = ApiToken
        fields: tuple[str, ...] = (
            "id",
            "name",
            "user",
            "scopes",
            "networks",
            "expires_at",
            "last_used_at",
            "last_used_address",
            "created_at",
        )


class NewApiTokenSerializer(ApiTokenSerializer):
    token = serializers.CharField(
        read_only=True, help_text="The token, for `Authorization: Bearer`. Returned only once."
    )

    class Meta(ApiTokenSerializer.Meta):
        fields = (*ApiTokenSerializer.Meta.fields, "token")


class NetworkField(serializers.CharField):
    """A network such as 10.0.0.0/8 or 2001:db8::/32, or one address."""

    def to_internal_value(self, data: str) -> str:
        text = str(super().to_internal_value(data))
        try:
            return normalized(text)
        except ValueError as error:
            raise serializers.ValidationError(
                f"Not a network such as 10.0.0.0/8 or 2001:db8::/32: {error}"[:200]
            ) from None


class ApiTokenRequestSerializer(RequestSerializer[dict[str, Any]]):
    name = NameField(max_length=100, help_text="What uses the token, such as `ci`.")
    user = NameField(
        max_length=150,
        required=False,
        help_text="Name of a service account. Without it the token is the caller's.",
    )
    lifetime_seconds = serializers.IntegerField(
        min_value=60,
        max_value=MAX_LIFETIME_SECONDS,
        required=False,
        help_text="Time until the token ends; if absent, 90 days, or the end of the token of the "
        "program that makes it.",
    )
    scopes = serializers.ListField(
        child=serializers.ChoiceField(SCOPE_NAMES),
        required=False,
        max_length=len(SCOPE_NAMES),
        help_text="Privileges that the token may use, of those that its user has. The name of a "
        "built-in role stands for its privileges. Empty: all. Absent: those of the program's token "
        "that makes it.",
    )
    networks = serializers.ListField(
        child=NetworkField(max_length=50),
        required=False,
        max_length=MAX_NETWORKS,
        help_text="Networks from which the token is valid, such as `10.0.0.0/8`, `2001:db8::/32` "
        "or one address. Empty: all. Absent: those of the program's token that makes it.",
    )


TOKENS = Resource(
    ApiTokenSerializer,
    {
        "user": ("user__username", parse_text),
        "name": ("name", parse_text),
        "made_with_id": ("made_with_id", parse_id),
        "expires_since": ("expires_at__gte", parse_time),
        "expires_until": ("expires_at__lt", parse_time),
    },
    CREATED | {"name": Order("name")},
    rows=tokens.visible_tokens,
    kind=tokens.TOKENS,
)


class ApiTokenListView(ApplianceView):
    returns_secret: ClassVar[bool] = True
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self", "POST": "account.self"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "tokens"}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.PASSWORD_CHANGE_REQUIRED,),
    }

    get = TOKENS.lists(
        "List the caller's tokens, with those of logins; for administrators those of all users."
    )

    @extend_schema(request=ApiTokenRequestSerializer, responses={201: NewApiTokenSerializer})
    def post(self, request: Request) -> Response:
        """Create a token for a program: of the caller or, for administrators, a service account.

        It has the roles of its user, within its scopes, and ends with the user's password. The
        token of a program creates tokens within its own limits only, which end with it.
        """
        form = ApiTokenRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values = form.validated_data
        seconds = values.get("lifetime_seconds")
        actor = request_user(request)

        def create() -> dict[str, Any]:
            row, text = tokens.create_for(
                username=values.get("user", ""),
                name=values["name"],
                lifetime=timedelta(seconds=seconds) if seconds else None,
                scopes=values.get("scopes"),
                networks=values.get("networks"),
                actor=actor,
                made_with=token_of(request),
            )
            return serialize(ApiTokenSerializer, row) | {"token": text}

        authority = digest_of_privileges(actor)
        return create_once(request, create, authority=authority, is_secret=True)


class ApiTokenView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "account.self",
        "DELETE": tokens.REVOKE.privilege,
    }

    get = TOKENS.shows("Return one token, without its secret.")

    @TOKENS.deletes()
    def delete(self, user: User, token: ApiToken) -> None:
        """Revoke a token. Its requests fail and its sockets close at once."""
        tokens.revoke(token_id=token.pk, actor=user)
