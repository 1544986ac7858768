"""Limits of agent messages. Agents keep them, and the appliance ends a stream that does not."""

from __future__ import annotations

MAX_MESSAGE_BYTES = 1 << 20
MAX_NUMBER = (1 << 63) - 1
"""The largest value of a database column."""
MAX_GPU_MEMORY_BYTES = 1 << 50
"""Sums over the GPUs of all nodes fit in a database column."""
MAX_GPUS = 64
MAX_ENDPOINTS = 16
MAX_SESSIONS = 1500
"""Open sessions, and those that ended during the last two minutes."""
MAX_PARTITIONS = 16
MAX_ALLOCATIONS = 100 * MAX_GPUS
"""Of a node: each has at least 1 % of a GPU."""
MAX_REFUSED_CALLS = 64
MAX_ISOLATION_MEASURES = 16
MAX_METRICS = 64
MAX_NAME, MAX_TEXT, MAX_SHORT, MAX_ADDRESS = 64, 200, 20, 255
"""Characters."""
MAX_PID, MAX_SECONDS = (1 << 31) - 1, 1 << 37
"""Seconds since 1970; calendars end after the year 9999, before 1 << 38."""


def printable(text: str, maximum: int) -> str:
    """Return the text without unprintable characters and not longer than the maximum."""
    return "".join(c if c.isprintable() else "?" for c in text[:maximum])
