"""Requests and messages between the HTTP server process and the controller."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appliance.accounts.services import token_create
from appliance.allocations import services
from appliance.allocations.models import Allocation
from appliance.api.errors import ApplianceError, Code
from appliance.api.wait import Wait
from appliance.controller import application
from appliance.controller.application import ControllerApplication
from appliance.controller.http_server import HttpServerProcess
from appliance.db import change_log
from appliance.db.change_log import NO_ID, Change, Removal, Topic
from appliance.db.writer import Writer, request_pool, run_in_transaction
from appliance.fleet.connections import SampleClient
from appliance.http import forwarding, server
from appliance.http.forwarding import AppliedSequence
from appliance.http.internal_headers import EXECUTION_HEADER, SEQUENCE_HEADER, WAIT_HEADER
from appliance.http.request import Execution, execution_of, view_of
from appliance.inventory.models import Gpu, Node
from appliance.ipc import frames, processes
from appliance.ipc import messages_pb2 as pb
from tests.appliance.conftest import Cast

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 120.0
AddNode = Callable[..., Node]
PROJECTS = frozenset({uuid.UUID(int=3), uuid.UUID(int=4)})


@pytest.fixture(autouse=True)
def writes_leave_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a writer thread, writes would run on the event loop."""
    monkeypatch.setattr(
        application, "submit_write", lambda work: request_pool.submit(run_in_transaction, work)
    )


def request(
    method: str, path: str, token: str, body: object = None, query: bytes = b""
) -> tuple[int, dict[bytes, bytes], Any]:
    """Return status, headers and body of a response of the controller."""
    execution = execution_of({"method": method, "path": path, "query_string": query})
    raw = b"" if body is None else json.dumps(body).encode()
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": [
            (b"authorization", f"Bearer {token}".encode()),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(raw)),
            (EXECUTION_HEADER, execution.value.encode()),
        ],
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": raw}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(ControllerApplication()(scope, receive, send))
    start, content = sent[0], sent[1]["body"]
    return start["status"], dict(start["headers"]), json.loads(content) if content else None


class HttpServer:
    """The HTTP server's end of the stream."""

    def __init__(self, process: HttpServerProcess, connection: socket.socket) -> None:
        self.process, self.connection = process, connection
        connection.settimeout(SECONDS)
        self._frames = frames.read_frames(connection)

    def next(self, kind: str) -> pb.ControllerMessage:
        for frame in self._frames:
            message = pb.ControllerMessage.FromString(frame.body)
            if message.WhichOneof("body") == kind:
                return message
        raise AssertionError(f"the stream ended before a {kind}")

    def send(self, message: pb.HttpServerMessage) -> None:
        self.connection.sendall(frames.encode_message(message))


@pytest.fixture
def http_server() -> Iterator[HttpServer]:
    process = HttpServerProcess(server.Options(-1, -1, -1, "", "", ""))
    theirs, ours = socket.socketpair()
    thread = threading.Thread(target=process.serve, args=[theirs], daemon=True)
    thread.start()
    made = HttpServer(process, ours)
    made.next("snapshot")
    unsubscribe = change_log.subscribe_all(process.send_change)
    yield made
    unsubscribe()
    ours.close()
    thread.join(SECONDS)


def test_response_carries_the_number_of_the_last_change_of_its_request(
    cast: Cast, add_node: AddNode, http_server: HttpServer
) -> None:
    add_node()
    before = change_log.sequence()
    token = token_create(user=cast.alice, name="test")[1]
    status, headers, body = request("POST", "/api/v1/allocations", token, {"percent": 10})
    assert status == 202 and Allocation.objects.get().pk == uuid.UUID(body["id"])
    last = int(headers[SEQUENCE_HEADER])
    topics: set[str] = set()
    while (change := http_server.next("change").change).sequence < last:
        topics.add(change.topic)
    assert last > before and {"allocation", "partition", "event"} <= topics | {change.topic}


@pytest.mark.parametrize("inline", [True, False])
def test_failed_request_is_rolled_back(
    cast: Cast, add_node: AddNode, monkeypatch: pytest.MonkeyPatch, inline: bool
) -> None:
    add_node()

    def refuse() -> None:
        raise ApplianceError(Code.CONFLICT, "Not now; try again.")

    monkeypatch.setattr(services, "run_tick", refuse)
    view = view_of({"path": "/api/v1/allocations"})
    monkeypatch.setattr(view, "inline_write", inline)
    token = token_create(user=cast.alice, name="test")[1]
    status, _, problem = request("POST", "/api/v1/allocations", token, {"percent": 10})
    assert status == 409 and problem["detail"] == "Not now; try again."
    assert not Allocation.objects.exists()


def test_rejected_request_with_a_body_is_repeated_by_the_writer(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer_thread = Writer()
    monkeypatch.setattr(application, "submit_write", writer_thread.submit)
    token = token_create(user=cast.alice, name="test")[1]
    status, _, _ = request("POST", "/api/v1/allocations", token, {"percent": 10, "pool": "none"})
    writer_thread.stop()
    assert status == 404


def test_wait_of_a_controller_response_is_resumed_from_its_header(
    cast: Cast, add_node: AddNode
) -> None:
    add_node()
    token = token_create(user=cast.alice, name="test")[1]
    made = request("POST", "/api/v1/allocations", token, {"percent": 10})[2]
    path = f"/api/v1/allocations/{made['id']}"
    _, headers, _ = request("DELETE", path, token, query=b"wait=5")
    wait = Wait.from_header(headers[WAIT_HEADER].decode())
    assert wait.seconds == 5 and not wait.is_over() and wait.path == path


def test_response_without_wait_parameter_has_no_wait_header(cast: Cast, add_node: AddNode) -> None:
    add_node()
    token = token_create(user=cast.alice, name="test")[1]
    _, headers, _ = request("POST", "/api/v1/allocations", token, {"percent": 10})
    assert WAIT_HEADER not in headers


def test_change_of_a_project_reaches_the_stream_before_the_response(
    cast: Cast, http_server: HttpServer
) -> None:
    token = token_create(user=cast.admin, name="test")[1]
    status, headers, _ = request("POST", "/api/v1/projects", token, {"name": "new"})
    topics = []
    while (change := http_server.next("change").change).sequence <= int(headers[SEQUENCE_HEADER]):
        topics.append(change.topic)
        if change.sequence == int(headers[SEQUENCE_HEADER]):
            break
    assert status == 201 and "identity" in topics


@pytest.mark.parametrize(
    "change",
    [
        Change(Topic.TASK, uuid.UUID(int=1)),
        Change(Topic.IDENTITY),
        Change(Topic.PARTITION, uuid.UUID(int=2), Removal("inventory.view")),
        Change(Topic.NODE, uuid.UUID(int=2), Removal("inventory.view", PROJECTS)),
    ],
)
def test_change_survives_encoding(change: Change) -> None:
    message = pb.ControllerMessage.FromString(change_log.to_message(7, change).SerializeToString())
    assert message.change.sequence == 7 and change_log.from_message(message.change) == change


def test_applied_sequence_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        applied = AppliedSequence()
        applied.advance(3)
        await applied.reach(2)
        waiting = asyncio.create_task(applied.reach(5))
        await asyncio.sleep(0)
        applied.advance(4)
        await asyncio.sleep(0)
        assert not waiting.done()
        applied.advance(5)
        await waiting
        monkeypatch.setattr(forwarding, "APPLY_TIMEOUT_SECONDS", 0.05)
        with pytest.raises(TimeoutError):
            await applied.reach(6)
        applied.advance(6)

    asyncio.run(steps())


def test_metrics_are_requested_from_the_http_server(
    add_node: AddNode, http_server: HttpServer
) -> None:
    gpu = Gpu.objects.get(node=add_node())
    found: list[dict[str, float]] = []
    asking = threading.Thread(
        target=lambda: found.append(http_server.process.latest_metrics(gpu.pk))
    )
    asking.start()
    call = http_server.next("latest_metrics_request").latest_metrics_request
    assert call.series_id == gpu.pk.bytes
    reply = pb.LatestMetricsReply(call=call.call, metrics={"power_watts": 70.5})
    http_server.send(pb.HttpServerMessage(latest_metrics_reply=reply))
    asking.join(SECONDS)
    assert found == [{"power_watts": 70.5}]


def test_process_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SEND_TIMEOUT_SECONDS", 1)
    process = HttpServerProcess(server.Options(-1, -1, -1, "", "", ""))
    theirs, ours = socket.socketpair()
    thread = threading.Thread(target=process.serve, args=[theirs], daemon=True)
    thread.start()
    deadline = time.monotonic() + SECONDS
    while thread.is_alive():
        for _ in range(1000):
            process.send_heartbeat(NO_ID)
        time.sleep(0.01)
        assert time.monotonic() < deadline, "the stalled connection was kept"
    ours.close()


def test_samples_are_acknowledged_only_when_stored(add_node: AddNode) -> None:
    node, listening = add_node(), frames.listen_on_random_name()
    packed = frames.pack_by_node(
        [(node.pk.bytes, b"\x12\x01m"), (node.pk.bytes, b""), (node.pk.bytes, b"\xff")]
    )

    async def send_samples() -> list[bytes]:
        client = SampleClient(listening.getsockname())
        pending = asyncio.create_task(client.store(packed, 3))
        closing = await asyncio.to_thread(frames.accept_own_user, listening)
        await asyncio.to_thread(closing.recv, 1)
        closing.close()
        replies = [await asyncio.wait_for(pending, SECONDS)]
        threading.Thread(target=server.take_samples, args=[listening], daemon=True).start()
        return [
            *replies,
            await asyncio.wait_for(client.store(packed, 3), SECONDS),
            await asyncio.wait_for(client.store(packed, 3), SECONDS),
        ]

    assert asyncio.run(send_samples()) == [bytes(3), b"\1\0\0", b"\1\0\0"]


def test_samples_of_other_users_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    listening = frames.listen_on_random_name()
    stranger, ours = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    users = iter([os.getuid() + 1, os.getuid()])
    monkeypatch.setattr(os, "getuid", lambda: next(users))
    for one in (stranger, ours):
        one.settimeout(SECONDS)
        one.connect(listening.getsockname())
    accepted = frames.accept_own_user(listening)
    accepted.sendall(b"?")
    assert ours.recv(1) == b"?" and stranger.recv(1) == b""


@pytest.mark.parametrize(
    ("method", "path", "query", "execution"),
    [
        ("GET", "/api/v1/allocations", b"", Execution.READ),
        ("POST", "/api/v1/allocations", b"", Execution.INLINE_WRITE),
        ("POST", "/api/v1/projects", b"", Execution.WRITE),
        ("POST", f"/api/v1/allocations/{NO_ID}/tickets", b"", Execution.READ),
        ("POST", f"/api/v1/allocations/{NO_ID}/tickets", b"dry_run=true", Execution.WRITE),
        ("POST", "/nowhere", b"", Execution.READ),
        ("POST", "/healthz", b"", Execution.READ),
    ],
)
def test_execution_path_follows_method_and_view(
    method: str, path: str, query: bytes, execution: Execution
) -> None:
    scope = {"method": method, "path": path, "query_string": query}
    assert execution_of(scope) is execution
