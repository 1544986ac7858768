"""Last use of API tokens, to the minute.

A request only notes its token in memory. The HTTP server process sends its notes to the controller,
which stores them at most once a minute in one transaction. A process that is killed loses the notes
of the last minute.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import Q

from appliance.accounts.models import ApiToken
from appliance.db.prepared import Update
from appliance.db.writer import background_pool, run_in_thread, write_transaction

log = logging.getLogger(__name__)

STORE_INTERVAL_SECONDS = 60.0
Uses = dict[UUID, tuple[int, str]]
"""Minute, since 1970, and address of the last use, by the id of the token."""

_uses: Uses = {}

STORE_USE = Update(
    lambda token_id, at, address: (
        ApiToken.objects.filter(pk=token_id).filter(
            Q(last_used_at__isnull=True) | Q(last_used_at__lte=at)
        ),
        {"last_used_at": at, "last_used_address": address},
    )
)


def record(token_id: UUID, address: str) -> None:
    """Note that a client with this address uses the token now. Thread-safe."""
    _uses[token_id] = (int(time.time() // 60), address)


def add(uses: Mapping[UUID, tuple[int, str]]) -> None:
    """Note the uses that another process has seen. Thread-safe."""
    for token_id, use in uses.items():
        if use >= _uses.get(token_id, (0, "")):
            _uses[token_id] = use


def take() -> Uses:
    """Return the uses noted since the last call. Thread-safe."""
    global _uses
    taken, _uses = _uses, {}
    return taken


@write_transaction
def store(uses: Uses) -> None:
    """Store uses, unless another appliance has stored later ones. Bypasses the change log."""
    for token_id in sorted(uses):
        minute, address = uses[token_id]
        at = datetime.fromtimestamp(minute * 60, UTC)
        STORE_USE(token_id=token_id, at=at, address=address[:45])


def flush() -> None:
    """Store the uses noted so far. Blocks; tries only once, because they are only notes."""
    if uses := take():
        store(uses)


async def store_every_minute() -> None:
    """Run until cancelled."""
    while True:
        await asyncio.sleep(STORE_INTERVAL_SECONDS)
        try:
            await run_in_thread(flush, background_pool)
        except Exception:
            log.exception("accounts: storing the last use of tokens failed, notes are lost")
