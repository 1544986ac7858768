"""REST resources of enrolment: tokens, certificates, node removal and node bundles."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import create_once
from appliance.accounts.models import User
from appliance.api.errors import Code
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.fleet import bundle, enrolment, renewal
from appliance.inventory import node_views
from appliance.inventory.models import Node


class EnrolmentTokenSerializer(serializers.Serializer[dict[str, str]]):
    id = serializers.UUIDField()
    token = serializers.CharField(
        help_text="The text of the token. It is returned only once, for one use within 15 minutes."
    )
    expires_at = serializers.DateTimeField()


class EnrolRequestSerializer(RequestSerializer[dict[str, str]]):
    secret = serializers.RegexField(r"[!-~]", max_length=200)
    hostname = serializers.RegexField(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,89}$")
    agent_csr = serializers.RegexField(r"[!-~]", max_length=8192)
    launcher_csr = serializers.RegexField(r"[!-~]", max_length=8192)


class EnrolResponseSerializer(serializers.Serializer[dict[str, str]]):
    node_id = serializers.UUIDField()
    node_name = serializers.CharField()
    ca_pem = serializers.CharField()
    agent_pem = serializers.CharField()
    launcher_pem = serializers.CharField()
    fleet_address = serializers.CharField()
    appliance_url = serializers.CharField()


class CertificateRenewalSerializer(RequestSerializer[dict[str, str]]):
    certificate = serializers.RegexField(
        r"[!-~]", max_length=8192, help_text="The agent's current certificate in PEM format."
    )
    agent_csr = serializers.RegexField(r"[!-~]", max_length=8192)
    launcher_csr = serializers.RegexField(r"[!-~]", max_length=8192)
    signature = serializers.RegexField(
        r"^[A-Za-z0-9+/=]+$",
        max_length=512,
        help_text="ECDSA signature by the current key, in base64.",
    )


class CaSerializer(serializers.Serializer[dict[str, str]]):
    ca_pem = serializers.CharField()


class EnrolmentTokenRequestSerializer(RequestSerializer[dict[str, Any]]):
    node_id = serializers.UUIDField(
        required=False,
        allow_null=True,
        help_text=(
            "The node whose machine was reinstalled. It keeps its name, labels and GPUs, and its"
            " previous certificates are revoked. Omit it to enrol a new node."
        ),
    )


class EnrolmentTokenListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "fleet.enrol"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    returns_secret: ClassVar[bool] = True

    @extend_schema(
        request=EnrolmentTokenRequestSerializer, responses={201: EnrolmentTokenSerializer}
    )
    def post(self, request: Request) -> Response:
        """Create an enrolment token for one machine."""
        form = EnrolmentTokenRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        user, node_id = request_user(request), form.validated_data.get("node_id")

        def create() -> dict[str, Any]:
            row, text = enrolment.token_create(user=user, node_id=node_id)
            return {"id": row.pk, "token": text, "expires_at": row.expires_at}

        return create_once(request, create, is_secret=True)


class EnrolView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.TOKEN_SPENT,),
    }

    @extend_schema(
        request=EnrolRequestSerializer, responses={201: EnrolResponseSerializer}, auth=[]
    )
    def post(self, request: Request) -> Response:
        """Redeem an enrolment token. Needs no sign-in, because the secret is the permission."""
        form = EnrolRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(enrolment.redeem(**form.validated_data), status=201)


class CertificateRenewalListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (
            Code.UNAUTHENTICATED,
            Code.NODE_LOCKED,
            Code.TOO_MANY_ATTEMPTS,
        ),
    }

    @extend_schema(
        request=CertificateRenewalSerializer, responses={201: EnrolResponseSerializer}, auth=[]
    )
    def post(self, request: Request) -> Response:
        """Renew the certificates of a node, up to 30 days after they have expired.

        Needs no sign-in: the signature proves the identity of the node. Agents use it.
        """
        form = CertificateRenewalSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(renewal.renew_certificates(**form.validated_data), status=201)


class CaView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "public"}

    @extend_schema(responses=CaSerializer, auth=[])
    def get(self, request: Request) -> Response:
        """Return the certificate of the appliance's CA in PEM format.

        Compare its fingerprint with the one in the enrolment token before you trust it.
        """
        return Response({"ca_pem": (settings.DATA_DIR / "ca.pem").read_text()})


# Extends the view of the inventory by removal, because removal revokes certificates.
class NodeView(node_views.NodeView):
    privileges: ClassVar[dict[str, str]] = {
        **node_views.NodeView.privileges,
        "DELETE": enrolment.REMOVE.privilege,
    }
    error_codes: ClassVar[ErrorCodes] = {"DELETE": (Code.IN_USE,)}

    @node_views.NODES.deletes()
    def delete(self, user: User, node: Node) -> None:
        """Remove a node and revoke its certificates.

        Fails with `in_use` and the blockers while allocations hold partitions of the node. Also
        run `/opt/busbar/busbar-node remove` on the machine.
        """
        enrolment.node_remove(node_id=node.pk, actor=user.username)


class BundleSerializer(serializers.Serializer[dict[str, Any]]):
    digest = serializers.CharField(help_text="A digest over all files of the bundle.")
    python_versions = serializers.ListField(
        child=serializers.CharField(),
        help_text="The Python versions for which there is a bundle, such as 3.11.",
    )


class BundleListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "fleet.enrol"}
    error_codes: ClassVar[ErrorCodes] = {"GET": (Code.NOT_FOUND,)}

    @extend_schema(responses=BundleSerializer, operation_id="bundles_list")
    def get(self, request: Request) -> Response:
        """Return the digest of the node bundle and its Python versions."""
        return Response({"digest": bundle.digest(), "python_versions": bundle.python_versions()})


class BundleView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "fleet.enrol"}

    @extend_schema(responses={(200, "application/x-tar"): OpenApiTypes.BINARY})
    def get(self, request: Request, python: str) -> HttpResponse:
        """Download a tar with the agent, its wheels for a Python version and the data plane."""
        return HttpResponse(
            bundle.build_tar(python),
            content_type="application/x-tar",
            headers={"ETag": f'"{bundle.digest()}"'},
        )
