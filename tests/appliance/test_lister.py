"""The lister's end of the pipe: pages as the appliance itself would answer them, and nothing remembered of people longer than it may."""

from __future__ import annotations

import io
import json
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings

from appliance import pipe
from appliance.accounts.models import User
from appliance.accounts.services import token_create
from appliance.asgi import of_rows
from appliance.inventory.models import Gpu, Node
from appliance.lister import News, Process
from appliance.pipe import Frame, Kind
from appliance.telemetry import latest
from tests.appliance.conftest import Cast

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 20.0


class Asking:
    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        ours.settimeout(SECONDS)
        self._stream = io.BufferedReader(socket.SocketIO(ours, "r"))
        assert self._next().kind is Kind.READY

    def _next(self) -> Frame:
        frame = pipe.read(self._stream)
        assert frame is not None, "the lister hung up"
        return frame

    def say(self, frame: Frame) -> None:
        self._socket.sendall(frame.packed())

    def get(self, path: str, token: str) -> tuple[int, dict[str, Any]]:
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"limit=5", "headers": [(b"authorization", f"Bearer {token}".encode())]}
        self.say(Frame(Kind.GET, 7, body=pickle.dumps(scope)))
        answer = self._next()
        assert (answer.kind, answer.call) == (Kind.ANSWER, 7)
        status, _, body = pickle.loads(answer.body)
        return status, json.loads(body)


@pytest.fixture
def asking() -> Iterator[Asking]:
    theirs, ours = socket.socketpair()
    process = Process(theirs)
    thread = threading.Thread(target=process.run, daemon=True)
    thread.start()
    yield Asking(ours)
    ours.shutdown(socket.SHUT_RDWR)
    thread.join(SECONDS)
    process.close()


def test_a_page_has_what_was_told_beside_the_rows(cast: Cast, add_node: Callable[..., Node], asking: Asking) -> None:
    node, token = add_node(gpus=2), token_create(user=cast.vera, name="test")[1]
    first = Gpu.objects.get(node=node, index=0)
    latest.forget(node.pk)
    assert not asking.get("/api/v1/nodes", token)[1]["items"][0]["reachable"]
    asking.say(Frame(Kind.HEARD, body=pickle.dumps(News([node.pk], [(("power_watts", "fan_percent"), {first.pk: [70.5, float("nan")]})]))))
    assert asking.get("/api/v1/nodes", token)[1]["items"][0]["reachable"]
    shown = {g["id"]: g["metrics"] for g in asking.get("/api/v1/gpus", token)[1]["items"]}
    assert shown[str(first.pk)] == {"power_watts": 70.5} and list(shown.values()).count({}) == 1


def test_it_refuses_as_the_appliance_does(asking: Asking) -> None:
    assert asking.get("/api/v1/gpus", "nobody")[0] == 401
    assert asking.get("/api/v1/nowhere", "nobody")[0] == 404


def test_who_may_not_any_more_is_refused_after_forget(cast: Cast, asking: Asking) -> None:
    token = token_create(user=cast.vera, name="test")[1]
    assert asking.get("/api/v1/gpus", token)[0] == 200
    User.objects.filter(pk=cast.vera.pk).update(is_active=False)  # as another process: no signal here
    if not settings.ENVIRONMENT.database:  # with several appliances on one database nothing is remembered anyway
        assert asking.get("/api/v1/gpus", token)[0] == 200, "nothing was remembered, so nothing is shown by this test"
    asking.say(Frame(Kind.FORGET))
    assert asking.get("/api/v1/gpus", token)[0] == 401


def test_only_pages_that_say_so_go_there() -> None:
    assert of_rows("/api/v1/gpus") and of_rows("/api/v1/nodes")
    assert not any(map(of_rows, ("/api/v1/allocations", "/api/v1/tasks", "/nowhere", "/api/v1/gpus/1")))
