"""Enrolment over HTTPS: tokens for operators, redemption for nodes."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.activity.idempotency import idempotent
from appliance.activity.views import TaskSerializer
from appliance.fleet import bundle, enrolment, ssh_enrolment
from appliance.fleet.models import SshHostKey
from appliance.fleet.ssh import Credentials, Destination
from appliance.inventory import views as inventory
from appliance.inventory.models import Node
from appliance.rest import (
    ApplianceView,
    CursorPage,
    caller,
    check_version,
    plain,
    refuse_unknown_parameters,
)


class EnrolmentTokenSerializer(serializers.Serializer[dict[str, str]]):
    id = serializers.UUIDField()
    token = serializers.CharField(help_text="Shown once; single use, 15 minutes.")
    expires_at = serializers.DateTimeField()


class EnrolRequestSerializer(serializers.Serializer[dict[str, str]]):
    secret = serializers.RegexField(r"[!-~]", max_length=200)
    hostname = serializers.RegexField(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,89}$")
    agent_csr = serializers.RegexField(r"[!-~]", max_length=8192)
    launcher_csr = serializers.RegexField(r"[!-~]", max_length=8192)


class EnrolAnswerSerializer(serializers.Serializer[dict[str, str]]):
    node_id = serializers.UUIDField()
    node_name = serializers.CharField()
    ca_pem = serializers.CharField()
    agent_pem = serializers.CharField()
    launcher_pem = serializers.CharField()
    fleet_address = serializers.CharField()


class CaSerializer(serializers.Serializer[dict[str, str]]):
    ca_pem = serializers.CharField()


class EnrolmentTokenRequestSerializer(serializers.Serializer[dict[str, Any]]):
    node_id = serializers.UUIDField(
        required=False,
        allow_null=True,
        help_text="Of a node whose machine was installed anew: it is that node again, and its earlier certificates end.",
    )


class EnrolmentTokenListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "fleet.enrol"}

    @extend_schema(
        request=EnrolmentTokenRequestSerializer, responses={201: EnrolmentTokenSerializer}
    )
    def post(self, request: Request) -> Response:
        form = EnrolmentTokenRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        row, text = enrolment.token_create(
            user=caller(request), node_id=form.validated_data.get("node_id")
        )
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


class NodeView(inventory.NodeView):
    """Removal belongs here: it ends the node's certificates."""

    privileges: ClassVar[dict[str, str]] = {
        **inventory.NodeView.privileges,
        "DELETE": "fleet.enrol",
    }

    @extend_schema(responses={204: None})
    def delete(self, request: Request, node_id: UUID) -> Response:
        """Refused with the blockers while allocations hold partitions there. On the machine itself: `/opt/busbar/busbar-node remove`."""
        node = get_object_or_404(Node.objects.visible_to(caller(request)), pk=node_id)
        check_version(node, request)
        enrolment.node_remove(node_id=node.pk, actor=caller(request).username)
        return Response(status=204)


SECRETS = ("password", "private_key", "passphrase", "sudo_password")


class SshEnrolmentSerializer(serializers.Serializer[dict[str, Any]]):
    address = serializers.RegexField(
        r"^[A-Za-z0-9]([A-Za-z0-9.:_-]{0,253})$", help_text="Of the machine's SSH server."
    )
    port = serializers.IntegerField(min_value=1, max_value=65535, required=False, default=22)
    username = serializers.RegexField(
        r"^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}$", required=False, default="root"
    )
    host_key_sha256 = serializers.CharField(
        max_length=100,
        required=False,
        default="",
        allow_blank=True,
        help_text="Confirms the key that a first call answered with.",
    )
    password = serializers.CharField(
        max_length=500,
        required=False,
        default="",
        allow_blank=True,
        write_only=True,
        trim_whitespace=False,
    )
    private_key = serializers.CharField(
        max_length=20_000, required=False, default="", allow_blank=True, write_only=True
    )
    passphrase = serializers.CharField(
        max_length=500,
        required=False,
        default="",
        allow_blank=True,
        write_only=True,
        trim_whitespace=False,
    )
    use_agent = serializers.BooleanField(
        required=False, default=False, help_text="Of the appliance's own process."
    )
    sudo_password = serializers.CharField(
        max_length=500,
        required=False,
        default="",
        allow_blank=True,
        write_only=True,
        trim_whitespace=False,
    )
    addresses = serializers.ListField(
        child=serializers.CharField(max_length=255),
        required=False,
        default=list,
        max_length=16,
        help_text="Under which clients reach the node; by default `address`.",
    )
    data_port = serializers.IntegerField(
        min_value=1, max_value=65535, required=False, default=ssh_enrolment.DEFAULT_DATA_PORT
    )
    software_gpus = serializers.IntegerField(
        min_value=0,
        max_value=16,
        required=False,
        default=0,
        help_text="For a machine without NVIDIA's driver.",
    )

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if not (data["password"] or data["private_key"] or data["use_agent"]):
            raise serializers.ValidationError(
                "Give a password, a private_key, or use_agent.", code="credentials_needed"
            )
        return data


class SshEnrolmentView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "fleet.enrol"}
    dry_runs: ClassVar[bool] = False  # it speaks to the machine

    @extend_schema(request=SshEnrolmentSerializer, responses={202: TaskSerializer})
    def post(self, request: Request) -> Response:
        """The first call answers 409 host_key_unconfirmed with the fingerprint; repeated with it, a task begins. Credentials are kept nowhere."""
        form = SshEnrolmentSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        v = form.validated_data
        to = Destination(v["address"], v["port"], v["username"])
        shown = ssh_enrolment.confirm_host_key(
            to=to, given_sha256=v["host_key_sha256"], actor=caller(request).username
        )
        credentials = Credentials(
            v["password"], v["private_key"], v["passphrase"], v["use_agent"], v["sudo_password"]
        )
        registration = ssh_enrolment.Registration(
            to, tuple(v["addresses"] or [to.address]), v["software_gpus"], v["data_port"]
        )

        def effect() -> tuple[int, dict[str, Any]]:
            task = ssh_enrolment.start(
                registration=registration,
                credentials=credentials,
                shown=shown,
                initiator=caller(request),
            )
            return 202, plain(TaskSerializer(task).data)

        response = idempotent(request, effect, secrets=SECRETS)
        response["Location"] = f"/api/v1/tasks/{response.data['id']}"
        return response


class SshHostKeySerializer(serializers.ModelSerializer[SshHostKey]):
    class Meta:
        model = SshHostKey
        fields = ("id", "address", "port", "key_type", "sha256", "confirmed_by", "created_at")


class SshHostKeyListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "fleet.enrol"}

    @extend_schema(responses=SshHostKeySerializer(many=True))
    def get(self, request: Request) -> Response:
        refuse_unknown_parameters(request, [])
        page = CursorPage()
        return page.get_paginated_response(
            SshHostKeySerializer(
                page.paginate_queryset(SshHostKey.objects.all(), request), many=True
            ).data
        )


class SshHostKeyView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"DELETE": "fleet.forget_host_key"}

    @extend_schema(responses={204: None})
    def delete(self, request: Request, key_id: UUID) -> Response:
        """For a machine that was set up anew. The next registration shows its key to be confirmed."""
        get_object_or_404(SshHostKey, pk=key_id)
        ssh_enrolment.forget_key(key_id=key_id, actor=caller(request).username)
        return Response(status=204)


class BundleSerializer(serializers.Serializer[dict[str, Any]]):
    digest = serializers.CharField(help_text="Changes with every file of the bundle.")
    pythons = serializers.ListField(child=serializers.CharField())


class BundleListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "fleet.enrol"}

    @extend_schema(responses=BundleSerializer, operation_id="bundles_list")
    def get(self, request: Request) -> Response:
        return Response({"digest": bundle.digest(), "pythons": bundle.pythons()})


class BundleView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "fleet.enrol"}

    @extend_schema(responses={(200, "application/x-tar"): OpenApiTypes.BINARY})
    def get(self, request: Request, python: str) -> HttpResponse:
        """A tar: the agent, its wheels for this Python, the data plane."""
        return HttpResponse(
            bundle.tar(python),
            content_type="application/x-tar",
            headers={"ETag": f'"{bundle.digest()}"'},
        )
