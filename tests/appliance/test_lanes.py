"""Requests without a valid token: they are not forwarded, and they leave the capacity of others."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import ExitStack
from typing import Any

import pytest
from rest_framework.test import APIClient

from appliance.accounts import recent_tokens
from appliance.accounts.services import token_create
from appliance.http.application import HttpApplication
from appliance.http.handler import Response
from appliance.http.lanes import (
    LIMIT_PER_ACCOUNT,
    LIMITS,
    LIMITS_PER_ADDRESS,
    Lane,
    LaneFullError,
    Lanes,
)
from appliance.http.turns import Turns
from tests.appliance.conftest import Cast, body

ALLOCATIONS, ENROL = "/api/v1/allocations", "/api/v1/enrol"
HOME, STRANGER = "192.0.2.1", "198.51.100.7"


class Controller:
    """Records the paths of forwarded requests."""

    def __init__(self) -> None:
        self.forwarded: list[str] = []

    async def forward(self, scope: dict[str, Any], body: bytes) -> Response:
        self.forwarded.append(scope["path"])
        return Response(200, [], b"{}")


def post(
    controller: Controller, path: str, *headers: tuple[bytes, bytes], content: bytes = b"{}"
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, headers and body of the response to a request of a client."""
    application = HttpApplication()
    application.forwarder = controller
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), *headers],
        "client": (HOME, 4711),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(application(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "header",
    [
        (b"accept", b"*/*"),
        (b"authorization", b"Bearer bb_0.invalid"),
        (b"authorization", b"Bearer bb_0192f0c1a2b37c4d8e5f60718293a4b5.invalid"),
        (b"authorization", b"Basic YTpi"),
        (b"cookie", b"__Host-busbar=bb_0.invalid"),
        (b"cookie", b"\xff=;;"),
    ],
)
def test_unsafe_request_without_a_valid_token_is_not_forwarded(header: tuple[bytes, bytes]) -> None:
    controller = Controller()
    status, headers, content = post(controller, ALLOCATIONS, header)
    headers_of_direct = {header[0].decode(): header[1].decode("latin-1")}
    direct = APIClient().post(ALLOCATIONS, {}, format="json", headers=headers_of_direct)
    assert status == direct.status_code == 401 and controller.forwarded == []
    assert json.loads(content) == body(direct)
    assert headers[b"www-authenticate"].decode() == direct["WWW-Authenticate"]


@pytest.mark.django_db(transaction=True)
def test_public_request_and_request_with_a_valid_token_are_forwarded(cast: Cast) -> None:
    controller = Controller()
    token = token_create(user=cast.alice, name="test")[1]
    assert post(controller, ENROL)[0] == 200
    for header in (b"authorization", f"Bearer {token}"), (b"cookie", f"__Host-busbar={token}"):
        assert post(controller, ALLOCATIONS, (header[0], header[1].encode()))[0] == 200
    assert controller.forwarded == [ENROL, ALLOCATIONS, ALLOCATIONS]


@pytest.mark.django_db(transaction=True)
def test_large_body_needs_a_valid_token(cast: Cast) -> None:
    controller, content = Controller(), b" " * (1 << 20)
    token = token_create(user=cast.alice, name="test")[1]
    assert post(controller, ENROL, content=content)[0] == 413
    valid = (b"authorization", f"Bearer {token}".encode())
    assert post(controller, ALLOCATIONS, valid, content=content)[0] == 200
    assert recent_tokens.find(token)
    token_id = token.removeprefix("bb_").partition(".")[0]
    invalid = (b"authorization", f"Bearer bb_{token_id}.invalid".encode())
    assert post(controller, ALLOCATIONS, invalid, content=content)[0] == 401


def fill(
    lanes: Lanes, address: str, pending: ExitStack, lane: Lane = Lane.ANONYMOUS, account: str = ""
) -> int:
    """Enter a lane until it is full and return the number of requests."""
    for count in itertools.count():
        try:
            pending.enter_context(lanes.enter(lane, address, account))
        except LaneFullError:
            return count
    raise AssertionError


def test_one_address_fills_its_part_of_the_anonymous_lane_only() -> None:
    lanes = Lanes()
    with ExitStack() as pending:
        assert fill(lanes, STRANGER, pending) == LIMITS_PER_ADDRESS[Lane.ANONYMOUS]
        rest = LIMITS[Lane.ANONYMOUS] - LIMITS_PER_ADDRESS[Lane.ANONYMOUS]
        assert fill(lanes, HOME, pending) == rest
        for lane in (Lane.READ, Lane.WRITE, Lane.RENEWAL):
            with lanes.enter(lane, STRANGER):
                pass
    with lanes.enter(Lane.ANONYMOUS, STRANGER):
        pass


def test_pending_requests_leave_their_lane_when_they_end() -> None:
    lanes = Lanes()
    for _ in range(3 * LIMITS[Lane.ANONYMOUS]):
        with pytest.raises(ValueError), lanes.enter(Lane.ANONYMOUS, STRANGER):
            raise ValueError
    assert not lanes._pending


@pytest.mark.parametrize("lane", [Lane.READ, Lane.WRITE, Lane.RENEWAL])
def test_one_account_leaves_room_in_each_lane(lane: Lane) -> None:
    lanes = Lanes()
    with ExitStack() as pending:
        assert fill(lanes, STRANGER, pending, lane, "mallory") == LIMIT_PER_ACCOUNT
        rest = LIMITS[lane] - LIMIT_PER_ACCOUNT
        assert fill(lanes, STRANGER, pending, lane, "alice") == rest > 0
    assert not lanes._pending


def test_accounts_take_turns_at_the_threads() -> None:
    """A request of alice waits for one of mallory, not for the hundred that came before it."""
    served: list[str] = []

    async def request(turns: Turns, account: str) -> None:
        async with turns.take(account):
            await asyncio.sleep(0)
            served.append(account)

    async def run() -> None:
        turns = Turns(2)
        flood = [asyncio.create_task(request(turns, "mallory")) for _ in range(100)]
        await asyncio.sleep(0)
        victim = asyncio.create_task(request(turns, "alice"))
        await asyncio.sleep(0)
        for task in flood[50:60]:
            task.cancel()
        await asyncio.gather(victim, *flood, return_exceptions=True)
        await request(turns, "alice")
        assert turns._free == 2 and not turns._waiting

    asyncio.run(run())
    assert served.index("alice") < 10 and served.count("mallory") == 90
