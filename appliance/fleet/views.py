"""Enrolment over HTTPS: tokens for operators, redemption for nodes."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.fleet import enrolment
from appliance.rest import ApplianceView, caller


class EnrolmentTokenSerializer(serializers.Serializer[dict[str, str]]):
    id = serializers.UUIDField()
    token = serializers.CharField(help_text="Shown once; single use, 15 minutes.")
    expires_at = serializers.DateTimeField()


class EnrolRequestSerializer(serializers.Serializer[dict[str, str]]):
    secret = serializers.CharField(max_length=200)
    hostname = serializers.RegexField(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,89}$")
    agent_csr = serializers.CharField(max_length=8192)
    launcher_csr = serializers.CharField(max_length=8192)


class EnrolAnswerSerializer(serializers.Serializer[dict[str, str]]):
    node_id = serializers.UUIDField()
    node_name = serializers.CharField()
    ca_pem = serializers.CharField()
    agent_pem = serializers.CharField()
    launcher_pem = serializers.CharField()
    fleet_address = serializers.CharField()


class CaSerializer(serializers.Serializer[dict[str, str]]):
    ca_pem = serializers.CharField()


class EnrolmentTokenListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "fleet.enrol"}

    @extend_schema(request=None, responses={201: EnrolmentTokenSerializer})
    def post(self, request: Request) -> Response:
        row, text = enrolment.token_create(user=caller(request))
        return Response({"id": row.pk, "token": text, "expires_at": row.expires_at}, status=201)


class EnrolView(ApplianceView):
    """Public: the secret is the permission."""

    privileges: ClassVar[dict[str, str]] = {"POST": "public"}

    @extend_schema(request=EnrolRequestSerializer, responses={201: EnrolAnswerSerializer}, auth=[])
    def post(self, request: Request) -> Response:
        form = EnrolRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(enrolment.redeem(**form.validated_data), status=201)


class CaView(ApplianceView):
    """Public: whoever asks compares the fingerprint with the one in the token."""

    privileges: ClassVar[dict[str, str]] = {"GET": "public"}

    @extend_schema(responses=CaSerializer, auth=[])
    def get(self, request: Request) -> Response:
        return Response({"ca_pem": (settings.DATA_DIR / "ca.pem").read_text()})
