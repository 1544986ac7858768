"""The pipes between the process that people speak to and the one that decides; this test is the former."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appliance import pipe, told, web
from appliance.accounts import identities
from appliance.accounts.services import token_create
from appliance.activity import feed
from appliance.allocations import services
from appliance.allocations.models import Allocation
from appliance.answers import Answer
from appliance.asgi import view_of
from appliance.errors import ApplianceError, Code
from appliance.fleet import samples
from appliance.fleet.gateway import Readings
from appliance.inventory.models import Gpu, Node
from appliance.pipe import Frame, Kind
from appliance.telemetry import latest, series
from appliance.web_backend import WebBackend
from tests.appliance.conftest import Cast

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 20.0
AddNode = Callable[..., Node]


class Web:
    """What the process would be told and asked, and what it is answered."""

    def __init__(self, backend: WebBackend, people: socket.socket) -> None:
        self.backend, self._people = backend, people
        people.settimeout(SECONDS)
        self._frames = io.BufferedReader(socket.SocketIO(people, "r"))
        self.calls: list[str] = []
        """Names of the functions that it was told to call."""
        self.say(Frame(Kind.READY))
        assert backend._ready.wait(SECONDS)

    def say(self, frame: Frame) -> None:
        self._people.sendall(frame.packed())

    def hear(self) -> Frame:
        """The next that is no call."""
        while (frame := pipe.read(self._frames)) is not None:
            if frame.kind is not Kind.TOLD:
                return frame
            self.calls += [function.__qualname__ for function, _ in pickle.loads(frame.body)]
        raise AssertionError("the appliance hung up")

    def ask(
        self, kind: Kind, method: str, path: str, token: str, body: object = None
    ) -> tuple[Answer, Any]:
        raw = b"" if body is None else json.dumps(body).encode()
        headers = [
            (b"authorization", f"Bearer {token}".encode()),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(raw)),
        ]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": headers,
        }
        self.say(Frame(kind, 7, body=pickle.dumps((scope, raw))))
        heard = self.hear()
        assert (heard.kind, heard.call) == (Kind.ANSWER, 7)
        answer: Answer = pickle.loads(heard.body)
        return answer, json.loads(answer.body) if answer.body else None

    def hang_up(self) -> None:
        pipe.hang_up(self._people)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    backend = WebBackend(web.Options(-1, -1, -1, "", ""), everything=lambda: [])
    people, ours = socket.socketpair()
    thread = threading.Thread(target=backend.serve, args=[people], daemon=True)
    thread.start()
    monkeypatch.setattr(told, "web", backend)
    made = Web(backend, ours)
    yield made
    monkeypatch.setattr(told, "web", None)
    made.hang_up()
    thread.join(SECONDS)


def test_whoever_changed_something_is_answered_after_the_browsers_process_knows_of_it(
    cast: Cast, add_node: AddNode, other: Web
) -> None:
    add_node()
    token = token_create(user=cast.alice, name="test")[1]
    other.calls.clear()
    answer, made = other.ask(Kind.DECIDE, "POST", "/api/v1/allocations", token, {"percent": 10})
    assert answer.status == 202 and Allocation.objects.get().pk.hex == made["id"].replace("-", "")
    assert other.calls.count("publish") >= 3, "allocation, partition, event and task"


@pytest.mark.parametrize("kind", [Kind.DECIDE, Kind.CHANGE])
def test_what_is_refused_half_way_was_never_done(
    cast: Cast, add_node: AddNode, other: Web, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    add_node()

    def refuse() -> None:
        raise ApplianceError(Code.CONFLICT, "Not now; try again.")

    monkeypatch.setattr(services, "queue_advance", refuse)
    answer, problem = other.ask(
        kind,
        "POST",
        "/api/v1/allocations",
        token_create(user=cast.alice, name="test")[1],
        {"percent": 10},
    )
    assert (
        answer.status == 409
        and problem["detail"] == "Not now; try again."
        and not Allocation.objects.exists()
    )


def test_an_answer_that_may_be_better_soon_can_be_waited_for_there(
    cast: Cast, add_node: AddNode, other: Web
) -> None:
    add_node()
    token = token_create(user=cast.alice, name="test")[1]
    made = other.ask(Kind.DECIDE, "POST", "/api/v1/allocations", token, {"percent": 10})[1]
    answer, _ = other.ask(Kind.DECIDE, "DELETE", f"/api/v1/allocations/{made['id']}", token)
    assert answer.status == 202 and answer.until is None, "nobody asked to wait"
    scope_with_wait = {
        "type": "http",
        "method": "GET",
        "path": f"/api/v1/allocations/{made['id']}",
        "query_string": b"wait=5",
    }
    other.say(
        Frame(
            Kind.CHANGE,
            7,
            body=pickle.dumps(
                (
                    {
                        **scope_with_wait,
                        "headers": [(b"authorization", f"Bearer {token}".encode())],
                    },
                    b"",
                )
            ),
        )
    )
    until = pickle.loads(other.hear().body).until
    assert until.seconds == 5 and not until.over() and until.show()["state"] == "releasing"


def test_who_may_not_any_more_is_forgotten_there_before_whoever_said_so_is_answered(
    cast: Cast, other: Web
) -> None:
    token = token_create(user=cast.admin, name="test")[1]
    other.calls.clear()
    answer, _ = other.ask(Kind.CHANGE, "POST", "/api/v1/projects", token, {"name": "new"})
    assert answer.status == 201 and "forget" in other.calls


def test_samples_are_kept_when_that_process_says_so_and_only_then(add_node: AddNode) -> None:
    node, listening = add_node(), pipe.local_socket()
    news = pipe.packed_parts(
        [(node.pk.bytes, b"\x12\x01m"), (node.pk.bytes, b""), (node.pk.bytes, b"\xff")]
    )

    async def told_by_the_gateway() -> list[bytes]:
        readings = Readings(listening.getsockname())
        waiting = asyncio.create_task(readings.keep(news, 3))
        dying = await asyncio.to_thread(pipe.accepted, listening)
        await asyncio.to_thread(dying.recv, 1)
        dying.close()
        answers = [await asyncio.wait_for(waiting, SECONDS)]
        threading.Thread(target=web.take_samples, args=[listening], daemon=True).start()
        return [
            *answers,
            await asyncio.wait_for(readings.keep(news, 3), SECONDS),
            await asyncio.wait_for(readings.keep(news, 3), SECONDS),
        ]

    assert asyncio.run(told_by_the_gateway()) == [bytes(3), b"\1\0\0", b"\1\0\0"]


def test_samples_are_taken_from_our_own_processes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    listening = pipe.local_socket()
    stranger, ours = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    users = iter([os.getuid() + 1, os.getuid()])
    monkeypatch.setattr(os, "getuid", lambda: next(users))
    for one in (stranger, ours):
        one.settimeout(SECONDS)
        one.connect(listening.getsockname())
    accepted = pipe.accepted(listening)
    accepted.sendall(b"?")
    assert ours.recv(1) == b"?" and stranger.recv(1) == b"", "the first was hung up on"


def test_what_only_that_process_knows_is_asked_there(add_node: AddNode, other: Web) -> None:
    node = add_node()
    gpu = Gpu.objects.get(node=node)
    found: list[dict[str, float]] = []
    asking = threading.Thread(target=lambda: found.append(series.newest(gpu.pk)))
    asking.start()
    question = other.hear()
    function, arguments = pickle.loads(question.body)
    assert (question.kind, function.__qualname__, arguments) == (Kind.ASKED, "newest", (gpu.pk,))
    other.say(Frame(Kind.ANSWER, question.call, body=pickle.dumps({"power_watts": 70.5})))
    asking.join(SECONDS)
    assert found == [{"power_watts": 70.5}]


def test_a_process_that_does_not_read_is_hung_up_on(
    other: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "SEND_SECONDS", 1)
    connection = other.backend._people
    assert connection is not None
    pipe.impatient(connection)
    deadline = time.monotonic() + SECONDS
    while other.backend._people is not None:
        for _ in range(1000):
            feed.publish("node", feed.NO_PROJECT, None)
        other.backend.flush()
        assert time.monotonic() < deadline, "it still waits for a process that does not read"


@pytest.mark.parametrize(
    "function",
    [
        latest.heard_of,
        latest.forget,
        series.record,
        series.end,
        series.newest,
        identities.forget,
        feed.publish,
        samples.forget_gpus,
    ],
)
def test_what_is_told_is_found_there(function: Callable[..., Any]) -> None:
    assert pickle.loads(pickle.dumps(function)) is function


def test_requests_that_only_look_are_known() -> None:
    ticket, allocations = (
        view_of("/api/v1/allocations/01a205d9-76ca-7000-8269-66538d8a296d/tickets"),
        view_of("/api/v1/allocations"),
    )
    assert (
        ticket is not None
        and ticket.looks == {"POST"}
        and allocations is not None
        and not allocations.looks
        and allocations.quick
    )
    assert view_of("/nowhere") is None and view_of("/healthz") is None
