"""A clock that advances only when an event loop has nothing to do, for tests of budgets."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

R = TypeVar("R")


class VirtualClock(selectors.DefaultSelector):
    """Replaces time.monotonic. As the selector of a loop, it passes waiting times at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        loop = asyncio.SelectorEventLoop(self)
        try:
            return loop.run_until_complete(work)
        finally:
            loop.close()
