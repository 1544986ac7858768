"""REST resource passkey: those of the caller."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.action_views import detail_of
from appliance.accounts.idempotency import create_once
from appliance.accounts.token_views import token_of
from appliance.api.errors import Code
from appliance.api.fields import NameField
from appliance.api.listing import CREATED, Listing
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.signin import passkeys
from appliance.signin.fresh_sign_in import require_fresh_sign_in
from appliance.signin.models import Passkey
from appliance.signin.second_factor_views import FRESH, require_self

ANSWER = "The browser's answer, as `PublicKeyCredential.toJSON()` returns it."


class PasskeySerializer(serializers.ModelSerializer[Passkey]):
    class Meta:
        model = Passkey
        fields: ClassVar[tuple[str, ...]] = ("id", "name", "created_at", "last_used_at")


class NewPasskeySerializer(PasskeySerializer):
    recovery_codes = serializers.ListField(
        child=serializers.CharField(),
        help_text="Recovery codes, if this is the first second factor. Returned only once.",
    )

    class Meta(PasskeySerializer.Meta):
        fields = (*PasskeySerializer.Meta.fields, "recovery_codes")


class PasskeyNameSerializer(RequestSerializer[dict[str, Any]]):
    name = NameField(max_length=100, help_text="Name that tells the devices apart.")


class PasskeyRequestSerializer(PasskeyNameSerializer):
    credential = serializers.DictField(help_text=ANSWER)


class PasskeyOptionsSerializer(serializers.Serializer[dict[str, Any]]):
    options = serializers.DictField(
        help_text="Options of `navigator.credentials`, as its `…FromJSON` functions read them. "
        "Their challenge is valid for 5 minutes and once."
    )


PASSKEYS = Listing(PasskeySerializer, {}, CREATED)


class PasskeyListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = dict.fromkeys(("GET", "POST"), "account.self")
    error_codes: ClassVar[ErrorCodes] = {"POST": FRESH}
    dry_run_supported: ClassVar[bool] = False  # a challenge is valid once
    returns_secret: ClassVar[bool] = True
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "passkeys"}

    @extend_schema(parameters=PASSKEYS.parameters, responses=PasskeySerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the passkeys of the caller."""
        return PASSKEYS.respond(request, Passkey.objects.filter(user=require_self(request)))

    @extend_schema(request=PasskeyRequestSerializer, responses={201: NewPasskeySerializer})
    def post(self, request: Request) -> Response:
        """Add a passkey with the browser's answer to the options.

        Needs a sign-in of the last 10 minutes. The first second factor ends the other sign-ins of
        the caller.
        """
        form = PasskeyRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        user, token = require_self(request), token_of(request)
        require_fresh_sign_in(token)

        def create() -> dict[str, Any]:
            passkey, codes = passkeys.add(user=user, sign_in=token, **form.validated_data)
            return serialize(PasskeySerializer, passkey) | {"recovery_codes": codes}

        return create_once(request, create, is_secret=True)


class PasskeyOptionsView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "account.self"}
    error_codes: ClassVar[ErrorCodes] = {"POST": (*FRESH, Code.CONFLICT)}
    read_only_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    without_body: ClassVar[bool] = True

    @extend_schema(request=None, responses=PasskeyOptionsSerializer)
    def post(self, request: Request) -> Response:
        """Return the options with which a browser makes a passkey for the caller.

        Needs a sign-in of the last 10 minutes. Fails with `conflict` without the setting
        `sign_in.passkey_domain`.
        """
        user = require_self(request)
        require_fresh_sign_in(token_of(request))
        return Response({"options": passkeys.registration_options(user=user)})


class PasskeyView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "account.self",
        "PATCH": passkeys.RENAME.privilege,
        "DELETE": passkeys.REMOVE.privilege,
    }
    error_codes: ClassVar[ErrorCodes] = {
        "PATCH": (Code.NOT_FOUND,),
        "DELETE": (*FRESH, Code.NOT_FOUND),
    }

    @extend_schema(responses=detail_of(PasskeySerializer))
    def get(self, request: Request, passkey_id: UUID) -> Response:
        """Return a passkey of the caller."""
        user = require_self(request)
        passkey = get_object_or_404(Passkey, user=user, pk=passkey_id)
        allowed = passkeys.PASSKEYS.actions_of(user, passkey)
        return Response(serialize(PasskeySerializer, passkey) | {"actions": allowed})

    @extend_schema(request=PasskeyNameSerializer, responses=PasskeySerializer)
    def patch(self, request: Request, passkey_id: UUID) -> Response:
        """Rename a passkey of the caller."""
        form = PasskeyNameSerializer(data=request.data, partial=True)
        form.is_valid(raise_exception=True)
        name = form.validated_data.get("name")
        passkey = passkeys.rename(user=require_self(request), passkey_id=passkey_id, name=name)
        return Response(serialize(PasskeySerializer, passkey))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, passkey_id: UUID) -> Response:
        """Remove a passkey of the caller. Needs a sign-in of the last 10 minutes.

        The last second factor takes the recovery codes with it; it fails with `conflict` if the
        policy requires one.
        """
        user = require_self(request)
        get_object_or_404(Passkey, user=user, pk=passkey_id)
        require_fresh_sign_in(token_of(request))
        passkeys.remove(user=user, passkey_id=passkey_id)
        return Response(status=204)
