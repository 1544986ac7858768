"""REST resources of enrolment over SSH: the enrolment itself and confirmed host keys."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.authorization import require_privilege
from appliance.accounts.idempotency import idempotent
from appliance.accounts.models import User
from appliance.accounts.resources import Resource
from appliance.activity.views import TaskSerializer
from appliance.api.errors import Code
from appliance.api.filters import parse_text, parse_whole_number
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.fleet import ssh_enrolment
from appliance.fleet.host_keys import confirm_host_key, forget_host_key
from appliance.fleet.models import SshHostKey
from appliance.fleet.ssh import Credentials, Destination

SECRETS = ("password", "private_key", "passphrase", "sudo_password")


class SshEnrolmentSerializer(RequestSerializer[dict[str, Any]]):
    address = serializers.RegexField(
        r"^[A-Za-z0-9]([A-Za-z0-9.:_-]{0,253})$",
        help_text="The address of the machine's SSH server.",
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
        help_text="The fingerprint of the host key, to confirm the key of a previous response.",
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
        required=False,
        default=False,
        help_text="Whether to use the SSH agent of the appliance's process. Requires the privilege"
        " `fleet.use_ssh_agent`.",
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
        help_text="The addresses at which clients reach the node. Defaults to `address`.",
    )
    data_port = serializers.IntegerField(
        min_value=1, max_value=65535, required=False, default=ssh_enrolment.DEFAULT_DATA_PORT
    )
    software_gpus = serializers.IntegerField(
        min_value=0,
        max_value=16,
        required=False,
        default=0,
        help_text="The number of software GPUs, for a machine without NVIDIA's driver.",
    )

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if not (data["password"] or data["private_key"] or data["use_agent"]):
            raise serializers.ValidationError(
                "Set password, private_key or use_agent.", code="credentials_needed"
            )
        return data


class SshEnrolmentView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "fleet.enrol"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "tasks"}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (
            Code.HOST_KEY_UNCONFIRMED,
            Code.HOST_KEY_CHANGED,
            Code.ADDRESS_NOT_ALLOWED,
            Code.HOST_UNREACHABLE,
            Code.SIGN_IN_REFUSED,
        ),
    }
    dry_run_supported: ClassVar[bool] = False  # it connects to the machine

    @extend_schema(request=SshEnrolmentSerializer, responses={202: TaskSerializer})
    def post(self, request: Request) -> Response:
        """Enrol a machine over SSH.

        The first request fails with 409 `host_key_unconfirmed` and the fingerprint of the host
        key. Repeat it with `host_key_sha256` to start the task. Credentials are not stored.
        An address outside of the permitted networks fails with 403 `address_not_allowed`.
        """
        form = SshEnrolmentSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        v = form.validated_data
        if v["use_agent"]:
            require_privilege(request_user(request), "fleet.use_ssh_agent")
        to = Destination(v["address"], v["port"], v["username"])
        host_key = confirm_host_key(
            to=to, given_sha256=v["host_key_sha256"], actor=request_user(request).username
        )
        credentials = Credentials(
            v["password"], v["private_key"], v["passphrase"], v["use_agent"], v["sudo_password"]
        )
        enrolment_request = ssh_enrolment.EnrolmentRequest(
            to, tuple(v["addresses"] or [to.address]), v["software_gpus"], v["data_port"]
        )

        def effect() -> tuple[int, dict[str, Any]]:
            task = ssh_enrolment.start_enrolment(
                request=enrolment_request,
                credentials=credentials,
                host_key=host_key,
                initiator=request_user(request),
            )
            return 202, dict(TaskSerializer(task).data)

        return idempotent(request, effect, secrets=SECRETS)


class SshHostKeySerializer(serializers.ModelSerializer[SshHostKey]):
    class Meta:
        model = SshHostKey
        fields = ("id", "address", "port", "key_type", "sha256", "confirmed_by", "created_at")


SSH_HOST_KEYS = Resource(
    SshHostKeySerializer,
    {"address": ("address", parse_text), "port": ("port", parse_whole_number)},
    CREATED | {"address": Order("address")},
    rows=lambda _: SshHostKey.objects.all(),
)


class SshHostKeyListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "fleet.enrol"}

    get = SSH_HOST_KEYS.lists("List the confirmed SSH host keys.")


class SshHostKeyView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"DELETE": "fleet.forget_host_key"}

    @SSH_HOST_KEYS.deletes()
    def delete(self, user: User, key: SshHostKey) -> None:
        """Forget a host key of a reinstalled machine. The next enrolment confirms the new key."""
        forget_host_key(key_id=key.pk, actor=user.username)
