"""REST resources of the rotation of the CA and of the ticket key."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.allocations.tickets import signing_key_in
from appliance.api.errors import ApplianceError, Code
from appliance.api.fields import NumberField
from appliance.api.filters import reject_unknown_parameters
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView
from appliance.fleet import rotation
from appliance.fleet.certificates import load_authority
from appliance.keys.models import KeyKind, Phase

DEFAULT_HOLD_SECONDS = {KeyKind.CA: 86400.0, KeyKind.TICKET_KEY: 0.0}
MAX_HOLD_SECONDS = 90 * 86400.0
KIND = OpenApiParameter("kind", OpenApiTypes.STR, "path", enum=KeyKind.values)


class AcceptedKeySerializer(serializers.Serializer[dict[str, Any]]):
    fingerprint = serializers.CharField(
        help_text="SHA-256 of the CA's certificate, or the id of the ticket key."
    )
    signs = serializers.BooleanField()
    expires_at = serializers.DateTimeField(allow_null=True, help_text="Null for a ticket key.")


class KeyRotationSerializer(serializers.Serializer[dict[str, Any]]):
    kind = serializers.ChoiceField(choices=KeyKind.choices)
    phase = serializers.ChoiceField(choices=Phase.choices)
    phase_since = serializers.DateTimeField(allow_null=True)
    ready_at = serializers.DateTimeField(
        allow_null=True, help_text="The phase does not end before; null while idle."
    )
    pending_nodes = serializers.ListField(
        child=serializers.CharField(),
        help_text="Names of the nodes for which the phase waits. If it is forced to end, they are"
        " lost (`ca`) or refuse tickets until they connect again (`ticket-key`).",
    )
    keys = AcceptedKeySerializer(many=True, help_text="The accepted keys.")


class StartSerializer(RequestSerializer[dict[str, Any]]):
    hold_seconds = NumberField(
        required=False,
        min_value=0,
        max_value=MAX_HOLD_SECONDS,
        help_text="Time for which the next key is at least distributed before it signs. Default: a"
        " day for `ca`, so that clients learn the next CA; 0 for `ticket-key`.",
    )


class AdvanceSerializer(RequestSerializer[dict[str, Any]]):
    force = serializers.BooleanField(
        default=False, help_text="Wait neither for nodes nor for the time."
    )


def find_kind(text: str) -> KeyKind:
    if text not in KeyKind.values:
        raise ApplianceError(
            Code.NOT_FOUND, f'No keys of the kind "{text}"; there are: {", ".join(KeyKind.values)}.'
        )
    return KeyKind(text)


def describe(kind: KeyKind) -> Response:
    """Return the response that shows the progress of a kind."""
    found = rotation.progress(kind)
    slots = enumerate(found.state.accepted)
    content = {
        "kind": kind,
        "phase": found.state.phase,
        "phase_since": found.since,
        "ready_at": found.ready_at,
        "pending_nodes": found.pending_nodes,
        "keys": [describe_key(kind, slot) | {"signs": n == 0} for n, slot in slots],
    }
    return Response(KeyRotationSerializer(content).data)


def describe_key(kind: KeyKind, slot: str) -> dict[str, str | datetime | None]:
    if kind == KeyKind.CA:
        authority = load_authority(settings.DATA_DIR, slot)
        expires_at = authority.certificate.not_valid_after_utc
        return {"fingerprint": authority.fingerprint, "expires_at": expires_at}
    key = signing_key_in(settings.DATA_DIR / f"ticket_key{slot}")
    return {"fingerprint": key.key_id.hex(), "expires_at": None}


class KeyRotationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "fleet.rotate_keys"}

    @extend_schema(parameters=[KIND], responses=KeyRotationSerializer)
    def get(self, request: Request, kind: str) -> Response:
        """Show the keys of a kind, the phase of their rotation and the nodes it waits for."""
        reject_unknown_parameters(request, [])
        return describe(find_kind(kind))


class KeyRotationStartView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "fleet.rotate_keys"}
    dry_run_supported = False

    @extend_schema(parameters=[KIND], request=StartSerializer, responses=KeyRotationSerializer)
    def post(self, request: Request, kind: str) -> Response:
        """Create the next key and distribute it. The phases then follow by themselves."""
        found = find_kind(kind)
        form = StartSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        hold = form.validated_data.get("hold_seconds", DEFAULT_HOLD_SECONDS[found])
        rotation.start(kind=found, hold_seconds=hold, actor=request_user(request).username)
        return describe(found)


class KeyRotationAdvanceView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "fleet.rotate_keys"}
    dry_run_supported = False

    @extend_schema(parameters=[KIND], request=AdvanceSerializer, responses=KeyRotationSerializer)
    def post(self, request: Request, kind: str) -> Response:
        """End the phase now. Fails with `conflict` while it waits for nodes, unless forced."""
        found = find_kind(kind)
        form = AdvanceSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        force = form.validated_data["force"]
        rotation.advance(kind=found, force=force, actor=request_user(request).username)
        return describe(found)


class KeyRotationAbortView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "fleet.rotate_keys"}
    without_body: ClassVar[bool] = True
    dry_run_supported = False

    @extend_schema(parameters=[KIND], request=None, responses=KeyRotationSerializer)
    def post(self, request: Request, kind: str) -> Response:
        """Let the previous key sign again, and drop the next one when all nodes have followed."""
        found = find_kind(kind)
        rotation.abort(kind=found, actor=request_user(request).username)
        return describe(found)
