"""The feed protocol: authentication, visibility, resumption and malformed frames."""

from __future__ import annotations

import contextlib
import json
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.console.conftest import COOKIE
from tests.remoting.node import EVENT_SECONDS
from tests.system.conftest import Pool
from tests.websocket import WebSocket

pytestmark = pytest.mark.system


Opener = Callable[..., WebSocket]


@pytest.fixture
def open_socket(pool: Pool) -> Iterator[Opener]:
    context = ssl.create_default_context(cafile=str(pool.stack.appliance_data / "ca.pem"))
    with contextlib.ExitStack() as opened:

        def open_one(
            *, cookie: str = "", origin: str | None = None, path: str = "feed"
        ) -> WebSocket:
            headers = {"Cookie": f"{COOKIE}={cookie}"} if cookie else {}
            url = pool.stack.url.replace("https", "wss") + f"/api/v1/{path}"
            return opened.enter_context(WebSocket(url, context, headers=headers, origin=origin))

        yield open_one


def token(pool: Pool) -> str:
    return pool.token("feed-operator", "operator")


def send(socket: WebSocket, **message: Any) -> None:
    socket.send(json.dumps(message))


def receive(socket: WebSocket, **expected: Any) -> dict[str, Any]:
    """Return the next message with these fields. Raises TimeoutError after EVENT_SECONDS."""
    end = time.monotonic() + EVENT_SECONDS
    while True:
        message: dict[str, Any] = json.loads(socket.recv(max(0.01, end - time.monotonic())))
        if all(message.get(k) == v for k, v in expected.items()):
            return message


def receive_change(socket: WebSocket, kind: str) -> dict[str, Any]:
    """Return the next change of an object of this kind."""
    while True:
        for change in receive(socket, type="changes")["items"]:
            if change["kind"] == kind:
                found: dict[str, Any] = change
                return found


def close_code(socket: WebSocket) -> int | None:
    """Block until the server closes the socket and return its close code."""
    end = time.monotonic() + EVENT_SECONDS
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            socket.recv(max(0.01, end - time.monotonic()))
    return closed.value.rcvd.code if closed.value.rcvd else None


def test_socket_with_unknown_path_is_not_found(open_socket: Opener) -> None:
    with pytest.raises(InvalidStatus) as refused:
        open_socket(path="nodes")
    assert refused.value.response.status_code == 404


def test_token_in_first_frame_opens_feed(pool: Pool, open_socket: Opener) -> None:
    socket = open_socket()
    send(socket, type="hello", token=token(pool))
    hello = receive(socket, type="hello")
    pool_row = pool.api.request("POST", "pools", {"name": f"feed-{time.time_ns()}"})
    event = receive_change(socket, "event")
    assert (
        event["row"]["kind"] == "pool.created"
        and event["row"]["object_id"] == pool_row["id"]
        and event["sequence"] > hello["sequence"]
    )
    socket.close()


@pytest.mark.parametrize(
    ("cookie", "origin"),
    [("", None), ("none", "same"), ("real", "https://elsewhere.example"), ("real", None)],
    ids=["no cookie", "invalid cookie", "foreign origin", "cookie without origin"],
)
def test_unauthenticated_socket_is_closed(
    pool: Pool, open_socket: Opener, cookie: str, origin: str | None
) -> None:
    text = token(pool) if cookie == "real" else cookie
    socket = open_socket(cookie=text, origin=pool.stack.url if origin == "same" else origin)
    send(socket, type="hello")
    assert close_code(socket) == 4401


def test_cookie_with_same_origin_opens_feed(pool: Pool, open_socket: Opener) -> None:
    socket = open_socket(cookie=token(pool), origin=pool.stack.url)
    send(socket, type="hello")
    assert receive(socket, type="hello")["resumed"] is False
    socket.close()


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        '{"type": "watch", "gpus": []}',
        '{"type": "hello", "sequence": "x"}',
        "[" * 50_000,
        "x" * 70_000,
        b"\x00\x01",
    ],
)
def test_malformed_frame_closes_only_its_socket(
    pool: Pool, open_socket: Opener, frame: str | bytes
) -> None:
    socket = open_socket(cookie=token(pool), origin=pool.stack.url)
    socket.send(frame)
    assert close_code(socket) in (4400, 4401, 1009)
    assert pool.api.items("nodes")


def test_revoked_token_closes_socket(pool: Pool, open_socket: Opener) -> None:
    import httpx

    text = pool.token("feed-leaver", "operator")
    socket = open_socket()
    send(socket, type="hello", token=text)
    receive(socket, type="hello")
    ca = ssl.create_default_context(cafile=str(pool.stack.appliance_data / "ca.pem"))
    assert (
        httpx.delete(
            pool.stack.url + "/api/v1/browser-login",
            headers={"Authorization": f"Bearer {text}"},
            verify=ca,
        ).status_code
        == 204
    )
    assert close_code(socket) == 4401


def test_reconnecting_client_resumes_or_reloads(pool: Pool, open_socket: Opener) -> None:
    stays, disconnects, text = open_socket(), open_socket(), token(pool)
    send(stays, type="hello", token=text)
    send(disconnects, type="hello", token=text)
    hello = receive(disconnects, type="hello")
    disconnects.close()
    receive(stays, type="hello")
    name = f"missed-{time.time_ns()}"
    pool.api.request("POST", "pools", {"name": name})
    receive_change(stays, "event")
    back = open_socket()
    send(back, type="hello", token=text, epoch=hello["epoch"], sequence=hello["sequence"])
    assert receive(back, type="hello")["resumed"] is True
    assert name in receive_change(back, "event")["row"]["message"]
    back.close()
    other_epoch = open_socket()
    send(other_epoch, type="hello", token=text, epoch="another", sequence=hello["sequence"])
    assert receive(other_epoch, type="hello")["resumed"] is False
    for s in (stays, other_epoch):
        s.close()


def test_watched_gpu_receives_history_and_then_samples(pool: Pool, open_socket: Opener) -> None:
    gpu, other = (g["id"] for g in pool.api.items("gpus"))
    socket = open_socket()
    send(socket, type="hello", token=token(pool))
    receive(socket, type="hello")
    send(socket, type="watch", gpus=[gpu])
    history = receive(socket, type="samples")["gpus"]
    assert list(history) == [gpu]
    last = history[gpu][-1]
    fresh = receive(socket, type="samples")["gpus"]
    assert list(fresh) == [gpu] and other not in fresh
    assert fresh[gpu][0][0] > last[0] and 0 <= fresh[gpu][0][1] <= 100 and fresh[gpu][0][2] >= 0
    socket.close()
