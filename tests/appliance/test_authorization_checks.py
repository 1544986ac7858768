"""Open feeds and watches are checked when identities change, not only periodically."""

from __future__ import annotations

import asyncio
import math

import pytest

from appliance.accounts import token_cache
from appliance.activity import consumers
from appliance.activity.consumers import authorization_checker
from appliance.activity.feed import Scope
from appliance.db import change_log
from appliance.db.change_log import Change, Topic

LIMIT_SECONDS = 120.0


class Connection:
    """An open connection, which notes its checks."""

    token_text = "token"

    def __init__(self) -> None:
        self.identity_version = token_cache.version()
        self.checked = asyncio.Event()

    async def end_if_changed(self, scope: Scope | None) -> None:
        assert scope is None
        self.checked.set()

    async def forget_hidden(self) -> None:
        pass


async def await_check_after(change: Change) -> None:
    connection = Connection()
    authorization_checker.add(connection)
    try:
        change_log.apply(change)
        await asyncio.wait_for(connection.checked.wait(), LIMIT_SECONDS)
    finally:
        authorization_checker.discard(connection)


def test_change_of_an_identity_checks_connections_before_the_periodic_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumers, "AUTHORIZATION_CHECK_SECONDS", math.inf)
    monkeypatch.setattr(consumers, "authenticate_all", lambda tokens: dict.fromkeys(tokens))
    asyncio.run(await_check_after(Change(Topic.IDENTITY)))
