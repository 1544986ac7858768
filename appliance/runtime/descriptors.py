"""File descriptors of a process: their limit and their number."""

from __future__ import annotations

import asyncio
import logging
import os
import resource

log = logging.getLogger(__name__)

MAX_DESCRIPTORS = 65_536
CHECK_INTERVAL_SECONDS = 10.0
WARN_SHARE = 0.8


def raise_limit() -> None:
    """Raise the limit of this process and of those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MAX_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def in_use() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:  # that needs a descriptor
        return limit()


async def watch() -> None:
    """Log a warning while most descriptors are in use, until cancelled."""
    while True:
        await asyncio.sleep(CHECK_INTERVAL_SECONDS)
        if (used := in_use()) > WARN_SHARE * limit():
            log.warning("descriptors: %d of %d are in use", used, limit())
