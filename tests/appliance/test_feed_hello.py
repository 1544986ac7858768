"""Deadline of the hello on a feed socket; it excludes the time of authentication."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from appliance.activity import consumers

HELLO = '{"type": "hello", "token": "unknown"}'


def open_consumer(
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[consumers.FeedConsumer, list[dict[str, Any]]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    monkeypatch.setattr(consumers, "identify", lambda token, address: None)
    consumer = consumers.FeedConsumer()
    consumer.scope = {"headers": []}
    consumer.base_send = send
    return consumer, sent


def test_hello_ends_the_deadline_before_authentication(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, sent = open_consumer(monkeypatch)

    async def run() -> None:
        await consumer.connect()
        await consumer.receive(HELLO)
        with pytest.raises(asyncio.CancelledError):
            assert consumer.hello_timeout is not None
            await asyncio.wait_for(consumer.hello_timeout, 1)

    asyncio.run(run())
    assert [m["type"] for m in sent] == ["websocket.accept", "websocket.close"]


def test_hello_after_the_deadline_gets_no_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, sent = open_consumer(monkeypatch)
    monkeypatch.setattr(consumers, "HELLO_SECONDS", 0)

    async def run() -> None:
        await consumer.connect()
        assert consumer.hello_timeout is not None
        await consumer.hello_timeout
        await consumer.receive(HELLO)

    asyncio.run(run())
    assert [m["type"] for m in sent] == ["websocket.accept", "websocket.close"]
