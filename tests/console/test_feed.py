"""The live feed as a protocol: who is let in, who sees what, and what happens when one falls behind."""

from __future__ import annotations

import contextlib
import json
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.console.conftest import COOKIE
from tests.system.conftest import Pool

pytestmark = pytest.mark.system


Opener = Callable[..., ClientConnection]


@pytest.fixture
def open_socket(pool: Pool) -> Iterator[Opener]:
    context = ssl.create_default_context(cafile=str(pool.stack.appliance_data / "ca.pem"))
    with contextlib.ExitStack() as opened:

        def make(
            *, cookie: str = "", origin: str | None = None, path: str = "feed"
        ) -> ClientConnection:
            headers = {"Cookie": f"{COOKIE}={cookie}"} if cookie else {}
            url = pool.stack.url.replace("https", "wss") + f"/api/v1/{path}"
            return opened.enter_context(
                connect(
                    url, ssl=context, additional_headers=headers, origin=origin, max_size=16 << 20
                )
            )  # type: ignore[arg-type]

        yield make


def token(pool: Pool, role: str = "operator") -> str:
    return pool.stack.manage(
        "create_token", "--user", f"feed-{role}", "--role", role, "--hours", "1"
    ).splitlines()[-1]


def say(socket: ClientConnection, **message: Any) -> None:
    socket.send(json.dumps(message))


def hear(socket: ClientConnection, **wanted: Any) -> dict[str, Any]:
    """The next message of this kind; fails after ten seconds."""
    end = time.monotonic() + 10
    while True:
        message: dict[str, Any] = json.loads(socket.recv(max(0.01, end - time.monotonic())))
        if all(message.get(k) == v for k, v in wanted.items()):
            return message


def hear_change(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next change of an object of this kind."""
    while True:
        for change in hear(socket, type="changes")["items"]:
            if change["kind"] == kind:
                found: dict[str, Any] = change
                return found


def close_code(socket: ClientConnection, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            socket.recv(max(0.01, end - time.monotonic()))
    return closed.value.rcvd.code if closed.value.rcvd else None


def test_a_socket_that_is_not_there_is_not_found(open_socket: Opener) -> None:
    with pytest.raises(InvalidStatus) as refused:
        open_socket(path="nodes")
    assert refused.value.response.status_code == 404


def test_a_token_in_the_first_frame_opens_it_and_changes_come_in_order(
    pool: Pool, open_socket: Opener
) -> None:
    socket = open_socket()
    say(socket, type="hello", token=token(pool))
    hello = hear(socket, type="hello")
    made = pool.api.request("POST", "pools", {"name": f"feed-{time.time_ns()}"})
    event = hear_change(socket, "event")
    assert (
        event["row"]["kind"] == "pool.created"
        and event["row"]["object_id"] == made["id"]
        and event["sequence"] > hello["sequence"]
    )
    socket.close()


@pytest.mark.parametrize(
    ("cookie", "origin"),
    [("", None), ("none", "same"), ("real", "https://elsewhere.example"), ("real", None)],
    ids=["nothing", "a cookie that is none", "another site's page", "a cookie without an origin"],
)
def test_who_is_not_known_is_let_go(
    pool: Pool, open_socket: Opener, cookie: str, origin: str | None
) -> None:
    text = token(pool) if cookie == "real" else cookie
    socket = open_socket(cookie=text, origin=pool.stack.url if origin == "same" else origin)
    say(socket, type="hello")
    assert close_code(socket, 5) == 4401


def test_our_own_page_needs_only_its_cookie(pool: Pool, open_socket: Opener) -> None:
    socket = open_socket(cookie=token(pool), origin=pool.stack.url)
    say(socket, type="hello")
    assert hear(socket, type="hello")["resumed"] is False
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
def test_malformed_frames_end_the_socket_and_nothing_else(
    pool: Pool, open_socket: Opener, frame: str | bytes
) -> None:
    socket = open_socket(cookie=token(pool), origin=pool.stack.url)
    socket.send(frame)
    assert close_code(socket, 5) in (4400, 4401, 1009)
    assert pool.api.items("nodes")


def test_a_revoked_token_closes_its_socket_within_five_seconds(
    pool: Pool, open_socket: Opener
) -> None:
    import httpx

    text = token(pool)
    socket = open_socket()
    say(socket, type="hello", token=text)
    hear(socket, type="hello")
    ca = ssl.create_default_context(cafile=str(pool.stack.appliance_data / "ca.pem"))
    assert (
        httpx.delete(
            pool.stack.url + "/api/v1/browser-login",
            headers={"Authorization": f"Bearer {text}"},
            verify=ca,
        ).status_code
        == 204
    )
    begun = time.monotonic()
    assert close_code(socket, 6) == 4401 and time.monotonic() - begun < 5


def test_who_comes_back_catches_up_or_is_told_to_read_again(
    pool: Pool, open_socket: Opener
) -> None:
    stays, leaves, text = open_socket(), open_socket(), token(pool)
    say(stays, type="hello", token=text)
    say(leaves, type="hello", token=text)
    hello = hear(leaves, type="hello")
    leaves.close()
    hear(stays, type="hello")
    name = f"missed-{time.time_ns()}"
    pool.api.request("POST", "pools", {"name": name})
    hear_change(stays, "event")
    back = open_socket()
    say(back, type="hello", token=text, epoch=hello["epoch"], sequence=hello["sequence"])
    assert hear(back, type="hello")["resumed"] is True
    assert name in hear_change(back, "event")["row"]["message"]
    back.close()
    stranger = open_socket()
    say(stranger, type="hello", token=text, epoch="another", sequence=hello["sequence"])
    assert hear(stranger, type="hello")["resumed"] is False
    for s in (stays, stranger):
        s.close()


def test_samples_come_for_watched_gpus_with_their_last_minutes_first(
    pool: Pool, open_socket: Opener
) -> None:
    gpu, other = (g["id"] for g in pool.api.items("gpus"))
    socket = open_socket()
    say(socket, type="hello", token=token(pool))
    hear(socket, type="hello")
    say(socket, type="watch", gpus=[gpu])
    history = hear(socket, type="samples")["gpus"]
    assert list(history) == [gpu]
    last = history[gpu][-1]
    fresh = hear(socket, type="samples")["gpus"]
    assert list(fresh) == [gpu] and other not in fresh
    assert fresh[gpu][0][0] > last[0] and 0 <= fresh[gpu][0][1] <= 100 and fresh[gpu][0][2] >= 0
    socket.close()
