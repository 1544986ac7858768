"""Stalls of the machine, which make steps longer whatever its programs do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from remoting.bench.partitions.steps import Span

PAUSE_SECONDS = 0.01
LEAST_SECONDS = 0.1
"""A machine that runs all programs wakes a thread within a few milliseconds."""


@contextmanager
def watched_stalls() -> Iterator[list[Span]]:
    """Yield a list that gets the times in which a thread that only sleeps did not run."""
    stalls: list[Span] = []
    is_over = threading.Event()
    began = time.monotonic_ns()

    def watch() -> None:
        last = began
        while not is_over.wait(PAUSE_SECONDS):
            now = time.monotonic_ns()
            if now - last > LEAST_SECONDS * 1e9:
                stalls.append((last, now))
            last = now

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield stalls
    finally:
        is_over.set()
        thread.join()
