"""Every operation that may change something leaves an audit record, or is listed with a reason."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.tokens import default_token_generator
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from appliance.accounts.models import Project, User
from appliance.accounts.services import store_password, token_create
from appliance.activity import task_runner
from appliance.api.operation_id import operation_id
from appliance.audit.fields import KINDS, fields_of
from appliance.audit.models import AuditRecord, Outcome
from appliance.fleet import ssh_views
from appliance.fleet.ssh import Destination, HostKey
from appliance.inventory.models import Node
from appliance.pools.models import Pool
from appliance.runtime import live_settings
from appliance.runtime.setting_sections import SignInSettings
from appliance.signin import device_logins, second_factors, totp
from appliance.signin.models import Passkey
from tests.appliance.conftest import Cast
from tests.appliance.smtp_server import smtp_server
from tests.appliance.soft_passkey import Device
from tests.appliance.test_access_matrix import TABLE, Row, create_object
from tests.appliance.test_certificate_renewal import Machine
from tests.ports import port

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
UNRECORDED = {
    "actions": "reads only",
    "bulk": "each operation in it is recorded",
    "device-logins": "a stranger begins it; the approval and the token are recorded",
    "provider-logins": "a stranger begins it; the token of the return is recorded",
    "password-resets": "a stranger asks; the mail is recorded, in test_password_resets.py",
    "provider-logins/return": "recorded as the new token, in test_provider_logins.py",
    "passkeys/options": "reads only",
    "passkey-logins": "recorded as the new token, in test_passkeys.py",
    "allocations/{allocation_id}/heartbeat": "changes no row, once in some seconds",
    "allocations/{allocation_id}/tickets": "changes no row; sessions are events",
}
WRITES = [row for row in TABLE if row.method != "GET" and row.path not in UNRECORDED]
PASSWORD = "correct horse battery staple"
SENSITIVE = re.compile(
    "password|secret|sha256|csr|answer|hash|token|key|credential|code|bearer|cookie"
)


class World:
    """Objects and clients for the operations that the requests of access.txt cannot complete."""

    def __init__(self, cast: Cast, client_of: Clients, node: Node) -> None:
        self.cast, self.client_of, self.node = cast, client_of, node
        self.admin = client_of(cast.admin)

    def post(self, path: str, content: Any = None) -> Any:
        return self.admin.post(f"/api/v1/{path}", content or {}, format="json")

    def delete(self, path: str) -> Any:
        return self.admin.delete(f"/api/v1/{path}")


def sign_in(world: World, path: str) -> Any:
    store_password(user=world.cast.alice, encoded=make_password(PASSWORD), expires_at=None)
    content = {"username": "alice", "password": PASSWORD}
    origin = "https://testserver"
    client = APIClient(headers={"Origin": origin})
    return client.post(f"/api/v1/{path}", content, format="json", secure=True)


def advance_rotation(world: World) -> Any:
    world.post("key-rotations/ticket-key/start", {"hold_seconds": 0})
    return world.post("key-rotations/ticket-key/advance", {"force": True})


def abort_rotation(world: World) -> Any:
    world.post("key-rotations/ticket-key/start", {"hold_seconds": 0})
    return world.post("key-rotations/ticket-key/abort")


def exit_maintenance(world: World) -> Any:
    world.post(f"nodes/{world.node.pk}/enter-maintenance")
    return world.post(f"nodes/{world.node.pk}/exit-maintenance")


def resume(world: World) -> Any:
    pk = create_object("allocation_id", world.cast, world.client_of, world.node)
    world.post(f"allocations/{pk}/suspend")
    return world.post(f"allocations/{pk}/resume")


def renew(world: World) -> Any:
    return Machine(world.client_of(None)).renew()


def enrol(world: World) -> Any:
    return Machine(world.client_of(None)).content


def send_test_mail(world: World) -> Any:
    with TemporaryDirectory() as folder, smtp_server(Path(folder), port(90), "tls") as (_, mail):
        world.admin.patch("/api/v1/settings", {"mail": mail}, format="json")
        return world.post("settings/test-mail", {"to": "a@example.org"})


def signed_in(world: World) -> Any:
    """Return a client of alice with a sign-in just now."""
    text = token_create(user=world.cast.alice, name="login", is_sign_in=True)[1]
    return APIClient(headers={"Authorization": f"Bearer {text}"})


def with_second_factor(world: World) -> Any:
    """Return a client of alice, who has confirmed a second factor with the last request."""
    client = signed_in(world)
    secret = second_factors.begin(user=world.cast.alice)
    code = totp.code_at(secret, int(time.time()) // totp.STEP_SECONDS)
    client.last = client.post(f"{SECOND_FACTOR}/confirmation", {"code": code}, format="json")
    return client


def with_passkey(world: World) -> Any:
    """Return a client of alice, who has added a passkey with the last request."""
    live_settings.replace({SignInSettings: SignInSettings(passkey_domain="localhost")})
    client = signed_in(world)
    options = client.post("/api/v1/passkeys/options").json()["options"]
    content = {"name": "laptop", "credential": Device("https://localhost").create(options)}
    client.last = client.post("/api/v1/passkeys", content, format="json")
    return client


def passkey_path() -> str:
    return f"/api/v1/passkeys/{Passkey.objects.get().pk}"


def take_device_token(world: World) -> Any:
    row, device_code = device_logins.begin(client="x", address="127.0.0.1")
    world.post(f"device-logins/{row.code}/approve")
    return world.post("device-logins/token", {"device_code": device_code})


def set_forgotten_password(world: World) -> Any:
    user = User.objects.get(username="alice")
    User.objects.filter(pk=user.pk).update(email="alice@example.org", password=make_password("x"))
    code = default_token_generator.make_token(User.objects.get(pk=user.pk))
    fields = {"username": "alice", "code": code, "new_password": "a new one of my own"}
    return world.post("password-resets/completion", fields)


SECOND_FACTOR = "/api/v1/second-factor"
COMPLETED: dict[tuple[str, str], Callable[[World], Any]] = {
    ("POST", "login"): lambda w: sign_in(w, "login"),
    ("POST", "browser-login"): lambda w: sign_in(w, "browser-login"),
    ("DELETE", "browser-login"): lambda w: w.delete("browser-login"),
    ("POST", "key-rotations/{kind}/advance"): advance_rotation,
    ("POST", "key-rotations/{kind}/abort"): abort_rotation,
    ("POST", "enrol"): enrol,
    ("POST", "settings/test-mail"): send_test_mail,
    ("POST", "device-logins/token"): take_device_token,
    ("POST", "password-resets/completion"): set_forgotten_password,
    ("POST", "second-factor"): lambda w: signed_in(w).post(SECOND_FACTOR),
    ("DELETE", "second-factor"): lambda w: with_second_factor(w).delete(SECOND_FACTOR),
    ("POST", "second-factor/confirmation"): lambda w: with_second_factor(w).last,
    ("POST", "second-factor/recovery-codes"): lambda w: with_second_factor(w).post(
        f"{SECOND_FACTOR}/recovery-codes"
    ),
    ("DELETE", "users/{user_id}/second-factor"): lambda w: (
        with_second_factor(w) and w.delete(f"users/{w.cast.alice.pk}/second-factor")
    ),
    ("POST", "passkeys"): lambda w: with_passkey(w).last,
    ("PATCH", "passkeys/{passkey_id}"): lambda w: with_passkey(w).patch(
        passkey_path(), {"name": "phone"}, format="json"
    ),
    ("DELETE", "passkeys/{passkey_id}"): lambda w: with_passkey(w).delete(passkey_path()),
    ("POST", "certificate-renewals"): renew,
    ("POST", "nodes/enrol-ssh"): lambda w: w.post(
        "nodes/enrol-ssh", {"address": "127.0.0.1", "port": 1, "password": "x"}
    ),
    ("DELETE", "nodes/{node_id}"): lambda w: w.delete(f"nodes/{w.node.pk}"),
    ("POST", "nodes/{node_id}/exit-maintenance"): exit_maintenance,
    ("POST", "allocations/{allocation_id}/resume"): resume,
    ("DELETE", "pools/{pool_id}"): lambda w: w.delete(
        f"pools/{Pool.objects.create(name='spare').pk}"
    ),
    ("DELETE", "projects/{project_id}"): lambda w: w.delete(
        f"projects/{Project.objects.create(name='spare').pk}"
    ),
}
"""Requests that succeed, of the operations that access.txt sees refused."""


@pytest.fixture(autouse=True)
def pretend_host_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an enrolment over SSH begin without a server; its task fails on its own thread."""

    def confirmed(*, to: Destination, given_sha256: str, actor: str) -> HostKey:
        return HostKey("ssh-ed25519", "s")

    monkeypatch.setattr(ssh_views, "confirm_host_key", confirmed)
    monkeypatch.setattr(task_runner, "submit", lambda *_: None)
    monkeypatch.setattr(settings.ENVIRONMENT, "ssh_networks", (ip_network("127.0.0.0/8"),))


def complete(row: Row, world: World) -> Any:
    """Run the operation so that it succeeds, and return the response."""
    if run := COMPLETED.get((row.method, row.path)):
        return run(world)
    names = re.findall(r"\{(\w+)\}", row.path)
    values = {n: create_object(n, world.cast, world.client_of, world.node) for n in names}
    AuditRecord.objects.all().delete()
    path = "/api/v1/" + row.path.format(**values)
    return world.admin.generic(row.method, path, encoded(row.request_body), "application/json")


def encoded(content: Any) -> str:
    return "" if content is None else json.dumps(content)


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize("row", WRITES, ids=str)
def test_operation_that_succeeds_leaves_a_record(
    cast: Cast, client_of: Clients, add_node: AddNode, row: Row
) -> None:
    response = complete(row, World(cast, client_of, add_node()))
    assert isinstance(response, dict) or response.status_code < 400, response.content
    route = re.sub(r"\{(\w+)\}", r"<uuid:\1>", row.path)
    records = AuditRecord.objects.filter(action=operation_id(row.method, route))
    assert records.exists(), f"{row}: no record; call audit.records in its service"
    for record in records:
        assert record.outcome == Outcome.SUCCEEDED and record.request_id and record.address
        assert record.object_kind in {kind.kind for kind in KINDS.values()}
        assert record.actor not in ("", "system")


def test_operation_ids_are_those_of_the_openapi_document() -> None:
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    for path, operations in generator.get_schema(public=True)["paths"].items():
        route = re.sub(r"\{(\w+)\}", r"<uuid:\1>", path.removeprefix("/"))
        for method, operation in operations.items():
            if method != "get":
                assert operation_id(method.upper(), route) == operation["operationId"]


def test_no_recorded_field_holds_a_secret() -> None:
    public = {
        ("accounts.user", "must_change_password"),
        ("alarms.alarmdefinition", "webhook_secret_is_set"),
        ("fleet.sshhostkey", "key_type"),
        ("fleet.sshhostkey", "sha256"),
    }
    recorded = {(label, name) for label in KINDS for name in fields_of(label)}
    assert {(label, name) for label, name in recorded if SENSITIVE.search(name)} == public
