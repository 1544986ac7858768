"""REST resource token."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import tokens
from appliance.accounts.authentication import request_user
from appliance.accounts.models import ApiToken, User
from appliance.accounts.permissions import can
from appliance.api.fields import NameField
from appliance.api.filters import Filter, apply_filters, filter_parameters, parse_text
from appliance.api.pagination import CursorPagination
from appliance.api.request_serializer import RequestSerializer
from appliance.api.row_serializer import RowSerializer
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView

TOKEN_FILTERS: dict[str, tuple[str, Filter]] = {
    "user": ("user__username", parse_text),
    "name": ("name", parse_text),
}
MAX_LIFETIME_SECONDS = 366 * 86400
DEFAULT_LIFETIME_SECONDS = 90 * 86400


# The secret of a token is never read again.
class ApiTokenSerializer(RowSerializer[ApiToken]):
    user = serializers.CharField(source="user.username", read_only=True)

    class Meta:
        model = ApiToken
        fields: tuple[str, ...] = ("id", "name", "user", "expires_at", "created_at")


class NewApiTokenSerializer(ApiTokenSerializer):
    token = serializers.CharField(
        read_only=True, help_text="The token, for `Authorization: Bearer`. Returned only once."
    )

    class Meta(ApiTokenSerializer.Meta):
        fields = (*ApiTokenSerializer.Meta.fields, "token")


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
        help_text="Time until the token ends; 90 days if absent.",
    )


def visible_tokens(user: User) -> QuerySet[ApiToken]:
    """Return the tokens of the user or, with accounts.manage, of all users."""
    rows = ApiToken.objects.select_related("user")
    return rows if can(user, "accounts.manage", None) else rows.filter(user=user)


class ApiTokenListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self", "POST": "account.self"}

    @extend_schema(
        parameters=filter_parameters(TOKEN_FILTERS), responses=ApiTokenSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        """List the caller's tokens, with those of logins; for administrators those of all users."""
        rows = apply_filters(request, visible_tokens(request_user(request)), TOKEN_FILTERS)
        page = CursorPagination()
        found = page.paginate_queryset(rows, request)
        return page.get_paginated_response([serialize(ApiTokenSerializer, row) for row in found])

    @extend_schema(request=ApiTokenRequestSerializer, responses={201: NewApiTokenSerializer})
    def post(self, request: Request) -> Response:
        """Create a token for a program: of the caller or, for administrators, a service account.

        It has the roles of its user and ends with the user's password.
        """
        form = ApiTokenRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values = form.validated_data
        seconds = values.get("lifetime_seconds", DEFAULT_LIFETIME_SECONDS)
        row, text = tokens.create_for(
            username=values.get("user", ""),
            name=values["name"],
            lifetime=timedelta(seconds=seconds),
            actor=request_user(request),
        )
        return Response(serialize(ApiTokenSerializer, row) | {"token": text}, status=201)


class ApiTokenView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self", "DELETE": "account.self"}

    @extend_schema(responses=ApiTokenSerializer)
    def get(self, request: Request, token_id: UUID) -> Response:
        """Return one token, without its secret."""
        token = get_object_or_404(visible_tokens(request_user(request)), pk=token_id)
        return Response(serialize(ApiTokenSerializer, token))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, token_id: UUID) -> Response:
        """Revoke a token. Its requests fail and its sockets close at once."""
        user = request_user(request)
        token = get_object_or_404(visible_tokens(user), pk=token_id)
        tokens.revoke(token_id=token.pk, actor=user)
        return Response(status=204)
