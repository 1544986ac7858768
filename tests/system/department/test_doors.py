"""Attempts of people, leads, programs and auditors to leave their project.

The objects of project chemistry stay unread and unchanged behind every door.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from remoting.cli.run_command import environment
from tests.system.conftest import DEMO
from tests.system.department.chemistry import (
    NAME,
    OWNER,
    Chemistry,
    objects_of_chemistry,
    work_in_chemistry,
)
from tests.system.department.conftest import Department
from tests.system.department.operations import (
    FOR_ALL,
    SHARES,
    Operation,
    changes_of,
    operations,
)
from tests.websocket import WebSocket

pytestmark = pytest.mark.system
INTRUDERS = ("ada", "ben", "ci", "guest")
"""A lead, a member, a program and a viewer of project physics."""
REFUSED = {400, 403, 404, 405, 409}
FEED_SECONDS = 60.0
NOT_IN_BULK = {"ca", "sign-in-options", "passkey-logins/options", "audit/export"}
"""Public operations and downloads."""
READS = [o for o in operations() if o.method == "GET"]


@pytest.fixture(scope="module")
def chemistry(department: Department) -> Iterator[Chemistry]:
    with work_in_chemistry(department) as program:
        try:
            yield objects_of_chemistry(department)
        finally:
            program.terminate()
            release_all(department)


def release_all(department: Department) -> None:
    """Leave the GPUs to the tests of other files."""
    admin = department.api("admin")
    for row in admin.items("allocations"):  # queued, active or ended
        if row["state"] not in ("releasing", "released"):
            department.release("admin", row["id"])


def client_of(department: Department, account: str) -> httpx.Client:
    return httpx.Client(
        base_url=department.stack.url + "/api/v1/",
        verify=department.tls,
        headers={"Authorization": f"Bearer {department.token(account)}"},
        timeout=60,
        trust_env=False,
    )


@pytest.fixture
def clients(department: Department) -> Iterator[dict[str, httpx.Client]]:
    made = {account: client_of(department, account) for account in INTRUDERS}
    yield made
    for client in made.values():
        client.close()


def require_no_secret(text: str, chemistry: Chemistry, sent: str = "", kind: str = "") -> None:
    """Fail if the text has a name or id of chemistry that the request itself does not have.

    `kind` is the kind of the objects in the text.
    """
    secrets = chemistry.texts if kind in SHARES else chemistry.secrets
    found = {s for s in secrets if s in text and s not in sent}
    assert not found, (sent, found, text[:2000])


@pytest.mark.parametrize("operation", READS, ids=lambda o: o.path)
def test_no_read_shows_the_project(
    operation: Operation, chemistry: Chemistry, clients: dict[str, httpx.Client]
) -> None:
    path = operation.path_in(chemistry)
    if path is None:
        pytest.skip("not an object of a project")
    for client in clients.values():
        for query in operation.queries(chemistry):
            response = client.get(path, params=query)
            sent = f"{path} {query}"
            require_no_secret(response.text, chemistry, sent, operation.collection)
            if operation.parameters and operation.collection not in FOR_ALL:
                assert response.status_code in (403, 404), (sent, response.text)
            elif operation.collection in SHARES or response.status_code != 200:
                continue
            elif set(query.values()) & chemistry.secrets:
                assert response.json().get("items", []) == [], (sent, response.text)


def test_reads_find_the_objects_for_members(department: Department, chemistry: Chemistry) -> None:
    """Without this the test above could ask for what does not exist."""
    seen = []
    with client_of(department, OWNER) as member, client_of(department, "admin") as admin:
        for operation in READS:
            path = operation.path_in(chemistry)
            if operation.parameters and path is not None:
                answers = [c.get(path).status_code for c in (member, admin)]
                assert 200 in answers, (path, answers)
                seen.append(operation.path)
    assert len(seen) > 15


def state_of(department: Department, chemistry: Chemistry) -> dict[str, Any]:
    """Return the objects of chemistry, without what changes by itself."""
    api, ids = department.api("admin"), chemistry.ids
    kinds = ("allocation", "project", "quota", "reservation", "token", "user", "group")
    rows = {kind: api.request("GET", f"{kind}s/{ids[kind + '_id']}") for kind in kinds}
    rows["bindings"] = {b["id"]: b for b in api.items("role-bindings")}
    rows["members"] = {m["id"]: m for m in api.items(f"groups/{ids['group_id']}/members")}
    names = ("state", "version", "name", "quota_gpus", "is_active", "owner", "user", "project")
    return {
        kind: {n: row.get(n) for n in names} if "id" in row else sorted(row)
        for kind, row in rows.items()
    }


def sent_as(door: str, client: httpx.Client, change: tuple[str, str, Any]) -> list[httpx.Response]:
    """Send a change through a door: alone, as a dry run, or in a bulk request."""
    method, path, body = change
    if door == "single":
        return [client.request(method, path, json=body)]
    if door == "dry run":
        return [client.request(method, path, json=body, params={"dry_run": "true"})]
    operation = {"method": method, "path": path, "body": body}
    own = {"method": "PATCH", "path": "me/notifications", "body": {"start": False}}
    atomic = {"operations": [own, operation], "atomic": True}
    plain = {"operations": [operation]}
    return [
        client.post("bulk", json=plain),
        client.post("bulk", json=plain, params={"dry_run": "true"}),
        client.post("bulk", json=atomic),
    ]


@pytest.mark.parametrize("door", ["single", "dry run", "bulk"])
def test_no_change_reaches_the_project(
    department: Department, chemistry: Chemistry, clients: dict[str, httpx.Client], door: str
) -> None:
    before = state_of(department, chemistry)
    changes = changes_of(chemistry)
    assert len(changes) > 25
    for client in clients.values():
        for change in changes:
            for response in sent_as(door, client, change):
                sent = f"{change}"
                require_no_secret(response.text, chemistry, sent)
                content = response.json()
                statuses = [r["status"] for r in content.get("results", [])]
                refused = response.status_code in REFUSED or REFUSED & set(statuses)
                assert refused, (door, sent, response.text)
    assert state_of(department, chemistry) == before


def test_bulk_reads_nothing_of_the_project(
    chemistry: Chemistry, clients: dict[str, httpx.Client]
) -> None:
    paths = [o.path_in(chemistry) for o in READS if o.path not in NOT_IN_BULK]
    reads = [{"method": "GET", "path": path} for path in paths if path]
    for client in clients.values():
        for n in range(0, len(reads), 50):
            content = {"operations": reads[n : n + 50]}
            response = client.post("bulk", json=content)
            assert response.status_code == 200, response.text
            for read, result in zip(content["operations"], response.json()["results"], strict=True):
                kind = read["path"].partition("/")[0]
                require_no_secret(json.dumps(result), chemistry, read["path"], kind)


def test_actions_and_access_tell_nothing(
    chemistry: Chemistry, clients: dict[str, httpx.Client]
) -> None:
    ids = chemistry.ids
    kinds = ("allocation", "project", "user", "group")
    objects = [f"{kind}s/{ids[kind + '_id']}" for kind in kinds]
    for account, client in clients.items():
        answer = client.post("actions", json={"objects": objects}).json()
        assert [item["actions"] for item in answer["items"]] == [None] * len(objects), account
        for place in objects[:2]:
            assert client.get("access", params={"object": place}).status_code == 404
        asked = client.get("access", params={"user": OWNER})
        assert asked.status_code == 403, asked.text


def check_until(socket: WebSocket, text: str, chemistry: Chemistry) -> None:
    """Check all messages up to the one with this text."""
    found, end = "", time.monotonic() + FEED_SECONDS
    while text not in found:
        received = socket.recv(end - time.monotonic())
        found = received if isinstance(received, str) else received.decode()
        message = json.loads(found)
        for change in message.pop("items", ()):
            require_no_secret(json.dumps(change), chemistry, kind=change["kind"])
        require_no_secret(json.dumps(message), chemistry)


def make_changes(department: Department, chemistry: Chemistry) -> str:
    """Change objects of chemistry, and then one of physics. Returns the name of the last."""
    admin = department.api("admin")
    path = f"quotas/{chemistry.ids['quota_id']}"
    for weight in (2.0, 1.0):
        admin.request("PATCH", path, {"weight": weight})
    made = department.allocate(OWNER, "chemistry")
    department.release(OWNER, made["id"])
    chemistry.other_ids.add(made["id"])
    last = f"last-{uuid.uuid4().hex[:8]}"
    department.release("ben", department.allocate("ben", "physics", name=last)["id"])
    return last


def test_feed_shows_nothing_now_or_later(department: Department, chemistry: Chemistry) -> None:
    url = department.stack.url.replace("https", "wss") + "/api/v1/feed"
    gpus = [g["id"] for g in department.api("ben").items("gpus")]
    hello = {"type": "hello", "token": department.token("ben")}
    with WebSocket(url, department.tls) as socket:
        socket.send(json.dumps(hello))
        greeting = json.loads(socket.recv(30))
        socket.send(json.dumps({"type": "watch", "gpus": [*gpus, chemistry.ids["session_id"]]}))
        last = make_changes(department, chemistry)
        check_until(socket, last, chemistry)
    position = {name: greeting[name] for name in ("epoch", "sequence")}
    with WebSocket(url, department.tls) as socket:
        socket.send(json.dumps(hello | position))
        assert json.loads(socket.recv(30))["resumed"]
        check_until(socket, last, chemistry)


def test_watch_shows_nothing(department: Department, chemistry: Chemistry) -> None:
    with client_of(department, "ben") as client, client.stream("GET", "watch") as response:
        lines = response.iter_lines()
        assert next(lines).startswith("id: ")
        last, kind, line = make_changes(department, chemistry), "", ""
        while last not in line:
            line = next(lines)
            name, _, value = line.partition(": ")
            kind = value if name == "event" else kind
            require_no_secret(line, chemistry, kind=kind)


def run_with_ticket(folder: Path, answer: dict[str, Any], key: X25519PrivateKey) -> int:
    """Run a program with tickets and a client key. Returns its exit status."""
    lines = [f"key {base64.b64encode(key.private_bytes_raw()).decode()}"]
    for t in answer["tickets"]:
        lines.append(f"node {t['node']}")
        lines += [f"endpoint {e['address']} {e['port']}" for e in t["endpoints"]]
        lines += [f"node_key {t['node_key']}", f"ticket {t['ticket']}"]
    file = folder / uuid.uuid4().hex
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(descriptor, ("\n".join(lines) + "\n").encode())
    os.close(descriptor)
    done = subprocess.run(
        [DEMO, "add"],
        env=environment(str(file), True),
        capture_output=True,
        timeout=120,
        check=False,
    )
    return done.returncode


def tickets(department: Department, account: str, allocation_id: str, key: X25519PrivateKey) -> Any:
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    path = f"allocations/{allocation_id}/tickets"
    return department.api(account).request("POST", path, {"client_public_key": public})


def test_data_port_refuses_another_projects_ticket(
    department: Department, chemistry: Chemistry, tmp_path: Path
) -> None:
    ours, theirs = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    theirs_id = chemistry.ids["allocation_id"]
    stolen = tickets(department, OWNER, theirs_id, theirs)
    assert run_with_ticket(tmp_path, stolen, theirs) == 0, "the ticket is valid with its key"
    assert run_with_ticket(tmp_path, stolen, ours) != 0, "the ticket is for another key"
    held = department.allocate("ben", "physics")
    own = tickets(department, "ben", held["id"], ours)
    assert run_with_ticket(tmp_path, own, ours) == 0
    for ticket in own["tickets"]:
        content = base64.b64decode(ticket["ticket"])
        forged = content.replace(uuid.UUID(held["id"]).bytes, uuid.UUID(theirs_id).bytes)
        assert forged != content, "the ticket names its allocation"
        ticket["ticket"] = base64.b64encode(forged).decode()
    assert run_with_ticket(tmp_path, own, ours) != 0, "the signature covers the allocation"
    department.release("ben", held["id"])


def repeated(client: httpx.Client, path: str, body: Any, key: str, **query: str) -> httpx.Response:
    return client.post(path, json=body, params=query, headers={"Idempotency-Key": key})


def test_key_of_another_user_returns_nothing(
    department: Department, chemistry: Chemistry, clients: dict[str, httpx.Client]
) -> None:
    key = uuid.uuid4().hex
    body = {"percent": 5, "project": "chemistry", "name": "reagent-44"}
    with client_of(department, OWNER) as owner:
        made = repeated(owner, "allocations", body, key)
        assert made.status_code == 202
        assert repeated(owner, "allocations", body, key).json()["id"] == made.json()["id"]
        for client in clients.values():
            assert repeated(client, "allocations", body, key).status_code in (403, 404)
            bulk = {"operations": [{"method": "POST", "path": "allocations", "body": body}]}
            answer = repeated(client, "bulk", bulk, key).json()
            assert answer["results"][0]["status"] in (403, 404)
        owner.delete(f"allocations/{made.json()['id']}")


@pytest.mark.parametrize("door", ["allocations", "bulk", "atomic"])
def test_replay_after_a_lost_role_is_refused(department: Department, door: str) -> None:
    """The user keeps a role in another project, so that the operation itself stays open."""
    admin = department.api("admin")
    place = {"user": "ben", "role": "user", "project": "chemistry"}
    binding = admin.request("POST", "role-bindings", place)
    request = {"percent": 5, "project": "chemistry"}
    inner = [{"method": "POST", "path": "allocations", "body": request}]
    bulk: dict[str, Any] = {"operations": inner, "atomic": door == "atomic"}
    path, body = ("allocations", request) if door == "allocations" else ("bulk", bulk)
    key = uuid.uuid4().hex
    with client_of(department, "ben") as ben:
        first = repeated(ben, path, body, key)
        assert first.status_code in (200, 202), first.text
        assert repeated(ben, path, body, key).json() == first.json()
        admin.request("DELETE", f"role-bindings/{binding['id']}")
        for query in ({}, {"wait": "1"}) if door == "allocations" else ({},):
            again = repeated(ben, path, body, key, **query)
            statuses = [r["status"] for r in again.json().get("results", [])]
            assert again.status_code in (404, 422) or statuses == [404], again.text
            assert NAME not in again.text


def test_export_and_verification_need_the_whole_appliance(
    chemistry: Chemistry, clients: dict[str, httpx.Client]
) -> None:
    for client in clients.values():
        for path in ("audit/export", "audit/verification"):
            assert client.get(path).status_code == 403
    seen = clients["ada"].get("audit", params={"limit": "500"}).text
    require_no_secret(seen, chemistry)
