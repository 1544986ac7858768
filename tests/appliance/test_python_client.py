"""The generated Python client: its types, its requests, and its wheel."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from appliance.accounts.models import User
from busbar_client import Client, ClientError, Problem, Unreachable
from busbar_client.connection import BUSY_SECONDS, texts
from deploy.client_code import files
from deploy.client_contents import python_client
from deploy.client_wheel import ANY, build
from deploy.supervisor import ROOT
from tests.appliance.conftest import Cast
from tests.appliance.test_api_contract import api
from tests.unit.test_every_command import certificate

Clients = Callable[[User | None], Any]


@pytest.fixture
def client(cast: Cast, client_of: Clients) -> Iterator[Client]:
    """A client whose requests reach the appliance of the test."""
    django = client_of(cast.admin)

    def serve(request: httpx.Request) -> httpx.Response:
        headers = {
            f"HTTP_{name.upper().replace('-', '_')}": value
            for name, value in request.headers.items()
            if name in ("if-match", "idempotency-key")
        }
        target = request.url.raw_path.decode()
        body = request.content.decode()
        found = django.generic(request.method, target, body, "application/json", **headers)
        return httpx.Response(found.status_code, content=found.content)

    with Client("https://appliance", "t", certificate().decode()) as made:
        made._client = httpx.Client(
            transport=httpx.MockTransport(serve), base_url="https://appliance/api/v1/"
        )
        yield made


def test_files_are_those_of_the_openapi_document() -> None:
    for name, text in files().items():
        assert (ROOT / "busbar_client" / name).read_text() == text


def test_each_operation_with_json_has_a_method() -> None:
    missing = [
        operation["operationId"]
        for operations in api()["paths"].values()
        for operation in operations.values()
        if not hasattr(Client, operation["operationId"])
    ]
    assert set(missing) == {
        "feed",
        "audit_export_retrieve",
        "bundles_retrieve",
        "watch_retrieve",
    }


def test_id_may_be_a_uuid(client: Client) -> None:
    (pool,) = client.pools_list()["items"]
    pool_id: Any = UUID(pool["id"])
    assert client.pools_retrieve(pool_id)["name"] == pool["name"]


@pytest.mark.parametrize("given", ["../nodes", "..", "a/b", "a?limit=1", "a#b"])
def test_id_stays_one_segment_of_the_path(client: Client, given: str) -> None:
    with pytest.raises(Problem) as refused:
        client.pools_retrieve(given)
    assert refused.value.status == 404
    assert refused.value.fields.get("instance", "/api/v1/pools/").startswith("/api/v1/pools/")


def test_connection_without_a_ca_is_refused() -> None:
    with pytest.raises(ValueError, match="ca_pem is empty"):
        Client("https://appliance", "t", "")


def test_client_creates_changes_lists_and_deletes(client: Client) -> None:
    made = client.pools_create({"name": "night", "labels": {"team": "vision"}})
    assert made["labels"] == {"team": "vision"}
    for name in "abc":
        client.pools_create({"name": name})
    names = [pool["name"] for pool in client.all(client.pools_list, limit=2, order="name")]
    assert names == ["a", "b", "c", "default", "night"]
    page = client.pools_list(count=True, fields=["name"], labels="team=vision")
    assert [dict(item) for item in page["items"]] == [{"name": "night"}] and page.get("count") == 1
    changed = client.pools_partial_update(
        made["id"], {"policies": ["spread"]}, if_match=f'"{made["version"]}"'
    )
    assert changed["version"] == made["version"] + 1
    with pytest.raises(Problem) as stale:
        client.pools_destroy(made["id"], if_match='"1"')
    assert (stale.value.code, stale.value.status) == ("stale", 412)
    client.pools_destroy(made["id"])
    assert all(pool["name"] != "night" for pool in client.all(client.pools_list))


def test_repeated_key_has_one_effect(client: Client) -> None:
    first, second = (client.pools_create({"name": "once"}, idempotency_key="k") for _ in range(2))
    assert first["id"] == second["id"]


POSTS = [
    (re.sub(r"\{\w+\}", "1", path.removeprefix("/api/v1/")), operations["post"])
    for path, operations in api()["paths"].items()
    if "post" in operations
]


@pytest.mark.parametrize(("path", "operation"), POSTS, ids=[path for path, _ in POSTS])
def test_request_without_a_response_is_repeated_where_the_key_is_honoured(
    path: str, operation: dict[str, Any]
) -> None:
    honours = any(p["name"] == "Idempotency-Key" for p in operation.get("parameters", []))
    keys = keys_of_lost_request(path, {})
    assert len(keys) == (2 if honours and path != "bulk" else 1)
    assert keys == [keys[0]] * len(keys) and (keys[0] is not None) == honours


def test_repetition_waits_for_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The appliance may still be working on the request whose response was lost."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    keys: list[str] = []

    def serve(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) == 1:
            raise httpx.ReadError("the connection was lost")
        if len(keys) < 4:
            busy = {"code": "busy", "detail": "A request with this key is in progress."}
            return httpx.Response(503, json=busy, headers={"Retry-After": "1"})
        return httpx.Response(201, json={"name": "night"})

    with Client("https://appliance", "t", certificate().decode()) as client:
        client._client = httpx.Client(
            transport=httpx.MockTransport(serve), base_url="https://appliance/api/v1/"
        )
        assert client.pools_create({"name": "night"})["name"] == "night"
    assert len(keys) == 4 and len(set(keys)) == 1 and pauses == [1.0, 1.0]


def test_repetitions_end_at_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now, sent = [1000.0], list[float]()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.append(now.pop() + seconds))

    def serve(request: httpx.Request) -> httpx.Response:
        """Each request takes up to its timeout of 20 s, because the appliance waits as well."""
        sent.append(now[0])
        now[0] += min(20.0, request.extensions["timeout"]["read"])
        if len(sent) == 1:
            raise httpx.ReadTimeout("no response")
        busy = {"code": "busy", "detail": "A request with this key is in progress."}
        return httpx.Response(503, json=busy, headers={"Retry-After": "3"})

    with Client("https://appliance", "t", certificate().decode()) as client:
        client._client = httpx.Client(
            transport=httpx.MockTransport(serve), base_url="https://appliance/api/v1/", timeout=30
        )
        with pytest.raises(Unreachable) as ended:
            client.pools_create({"name": "night"})
    assert ended.value.code == "busy"
    assert len(sent) == 4 and now[0] - sent[1] <= BUSY_SECONDS


@pytest.mark.parametrize("token", ["bb_1.secret\r\nX: 1", "bb_1.secrét", "bb_1.se cret"])
def test_token_that_no_header_can_have_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ClientError, match="character that no token has") as refused:
        Client("https://appliance", token, certificate().decode())
    assert "cret" not in str(refused.value)


def test_blanks_around_a_token_do_not_belong_to_it() -> None:
    with Client("https://appliance", " bb_1.secret\r\n", certificate().decode()) as client:
        assert client._client.headers["Authorization"] == "Bearer bb_1.secret"


def test_only_atomic_bulk_requests_are_repeated() -> None:
    assert len(keys_of_lost_request("bulk", {"atomic": True, "operations": []})) == 2
    assert len(keys_of_lost_request("bulk", {"atomic": False, "operations": []})) == 1


def keys_of_lost_request(path: str, body: dict[str, Any]) -> list[str | None]:
    """Return the keys of a POST and its repetition, after the connection of the first was lost."""
    keys: list[str | None] = []

    def lose_the_first(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers.get("Idempotency-Key"))
        if len(keys) == 1:
            raise httpx.ReadError("the connection was lost")
        return httpx.Response(201, json={})

    with Client("https://appliance", "t", certificate().decode()) as client:
        client._client = httpx.Client(
            transport=httpx.MockTransport(lose_the_first), base_url="https://appliance/api/v1/"
        )
        with contextlib.suppress(Unreachable):
            client.send("POST", path, body)
    return keys


def test_refusal_has_its_fields(client: Client) -> None:
    with pytest.raises(Problem) as refused:
        client.pools_create({"name": "a", "policies": ["none"]})  # type: ignore[list-item]
    assert refused.value.fields["errors"][0]["pointer"] == "/policies/0"


def test_closed_port_is_unreachable() -> None:
    closed = Client("https://127.0.0.1:9", "t", certificate().decode())
    with closed, pytest.raises(Unreachable):
        closed.me_retrieve()


def test_values_of_queries_are_texts() -> None:
    given = {"a": True, "b": None, "c": ["x", "y"], "d": 1.5, "e": False}
    assert texts(given) == {"a": "true", "c": "x,y", "d": "1.5", "e": "false"}


WRONG_CALLS = """
from busbar_client import Client
def use(client: Client) -> None:
    client.pools_create({"nme": "a"})
    client.pools_list(order="size")
    client.nodes_list()["items"][0]["gpus"]
    client.pools_create({"name": 1})
    client.absent_list()
    good: int = client.pools_list().get("count", 0)
"""


def test_wrong_calls_are_type_errors(tmp_path: Path) -> None:
    path = tmp_path / "calls.py"
    path.write_text(WRONG_CALLS)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert lines == {4, 5, 6, 7, 8}, done.stdout


def test_wheel_is_the_same_each_time_and_works_alone(tmp_path: Path) -> None:
    wheel = build(tmp_path, ANY, python_client())
    again = build(tmp_path / "again", ANY, python_client())
    assert wheel.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(wheel) as content:
        assert {"busbar_client/client.py", "busbar_client/py.typed"} <= set(content.namelist())
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=False)
    target = next((folder / "lib").glob("python*")) / "site-packages"
    install = ["install", "-q", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    libraries = Path(httpx.__file__).parents[1]
    program = f"import sys; sys.path.append({str(libraries)!r}); import busbar_client, json; " + (
        "print(json.dumps([busbar_client.__file__, busbar_client.Client.nodes_list.__name__]))"
    )
    command = [str(folder / "bin" / "python"), "-I", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    path, name = json.loads(done.stdout)
    assert Path(path).is_relative_to(target) and name == "nodes_list"
