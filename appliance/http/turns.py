"""Turns of accounts at the threads that serve them, so that none waits for all requests of another.

Event loop only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Admits a number of requests at a time. Accounts with waiting requests take turns."""

    def __init__(self, at_a_time: int) -> None:
        self._free = at_a_time
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """In the order of turns."""

    @asynccontextmanager
    async def take(self, account: str) -> AsyncIterator[None]:
        """Wait for the turn of the account, and keep it during the block."""
        if self._free:
            self._free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(account, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give the turn to the next account that has a waiting request."""
        while self._waiting:
            account = next(iter(self._waiting))
            requests = self._waiting.pop(account)
            turn = requests.popleft()
            if requests:
                self._waiting[account] = requests  # behind the others
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
