"""The first word of a browser's socket: it has ten seconds for it, and what the appliance takes to look at it does not count."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from appliance.activity import consumers

HELLO = '{"type": "hello", "token": "of nobody"}'


def opened(monkeypatch: pytest.MonkeyPatch) -> tuple[consumers.FeedConsumer, list[dict[str, Any]]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    monkeypatch.setattr(consumers, "identify", lambda token: None)
    consumer = consumers.FeedConsumer()
    consumer.scope = {"headers": []}
    consumer.base_send = send
    return consumer, sent


def test_the_deadline_ends_with_the_hello_however_long_we_look_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, sent = opened(monkeypatch)

    async def run() -> None:
        await consumer.connect()
        await consumer.receive(HELLO)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(consumer.late, 1)

    asyncio.run(run())
    assert [m["type"] for m in sent] == ["websocket.accept", "websocket.close"]


def test_a_hello_after_the_deadline_is_not_answered_on_a_closed_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, sent = opened(monkeypatch)
    monkeypatch.setattr(consumers, "HELLO_SECONDS", 0)

    async def run() -> None:
        await consumer.connect()
        await consumer.late
        await consumer.receive(HELLO)

    asyncio.run(run())
    assert [m["type"] for m in sent] == ["websocket.accept", "websocket.close"]
