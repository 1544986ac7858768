"""Every operation that may change something leaves an audit record, or is listed with a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.hashers import make_password
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from appliance.accounts.models import Project, User
from appliance.accounts.services import store_password
from appliance.activity import task_runner
from appliance.api.operation_id import operation_id
from appliance.audit.fields import KINDS
from appliance.audit.models import AuditRecord, Outcome
from appliance.fleet import ssh_views
from appliance.fleet.ssh import Destination, HostKey
from appliance.inventory.models import Node
from appliance.pools.models import Pool
from tests.appliance.conftest import Cast
from tests.appliance.test_access_matrix import TABLE, Row, create_object
from tests.appliance.test_certificate_renewal import Machine

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
UNRECORDED = {
    "actions": "reads only",
    "bulk": "each operation in it is recorded",
    "allocations/{allocation_id}/heartbeat": "changes no row, once in some seconds",
    "allocations/{allocation_id}/tickets": "changes no row; sessions are events",
}
WRITES = [row for row in TABLE if row.method != "GET" and row.path not in UNRECORDED]
PASSWORD = "correct horse battery staple"


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


def renew(world: World) -> Any:
    return Machine(world.client_of(None)).renew()


def enrol(world: World) -> Any:
    return Machine(world.client_of(None)).content


COMPLETED: dict[tuple[str, str], Callable[[World], Any]] = {
    ("POST", "login"): lambda w: sign_in(w, "login"),
    ("POST", "browser-login"): lambda w: sign_in(w, "browser-login"),
    ("DELETE", "browser-login"): lambda w: w.delete("browser-login"),
    ("POST", "key-rotations/{kind}/advance"): advance_rotation,
    ("POST", "key-rotations/{kind}/abort"): abort_rotation,
    ("POST", "enrol"): enrol,
    ("POST", "certificate-renewals"): renew,
    ("POST", "nodes/enrol-ssh"): lambda w: w.post(
        "nodes/enrol-ssh", {"address": "127.0.0.1", "port": 1, "password": "x"}
    ),
    ("DELETE", "nodes/{node_id}"): lambda w: w.delete(f"nodes/{w.node.pk}"),
    ("POST", "nodes/{node_id}/exit-maintenance"): exit_maintenance,
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
    public = {"must_change_password", ("fleet.sshhostkey", "sha256")}
    for label, kind in KINDS.items():
        for name in kind.fields:
            secret = re.search("password|secret|sha256|csr|answer|hash", name)
            assert not secret or name in public or (label, name) in public, (label, name)
