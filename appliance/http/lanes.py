"""Lanes: limits of pending requests, so that strangers take no capacity from running work.

A request without a token that was valid lately is in the lane ANONYMOUS, whatever it requests.
Each address has a part of that lane at most. Event loop only.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from appliance.runtime.client_network import client_network


class Lane(enum.Enum):
    READ = "read"
    WRITE = "write"
    RENEWAL = "renewal"
    ANONYMOUS = "anonymous"


LIMITS = {Lane.READ: 256, Lane.WRITE: 256, Lane.RENEWAL: 256, Lane.ANONYMOUS: 128}
ANONYMOUS_LIMIT_PER_ADDRESS = 64


class LaneFullError(Exception):
    """Too many requests of the lane are pending."""


class Lanes:
    def __init__(self) -> None:
        self._pending: Counter[Lane | str] = Counter()
        """By lane, and for the lane ANONYMOUS also by network of the client."""

    @contextmanager
    def enter(self, lane: Lane, address: str) -> Iterator[None]:
        """Count a pending request. Raises LaneFullError if there are too many."""
        limits: dict[Lane | str, int] = {lane: LIMITS[lane]}
        if lane is Lane.ANONYMOUS:
            limits[client_network(address)] = ANONYMOUS_LIMIT_PER_ADDRESS
        if any(self._pending[key] >= limit for key, limit in limits.items()):
            raise LaneFullError
        self._pending.update(limits.keys())
        try:
            yield
        finally:
            self._pending.subtract(limits.keys())
            for key in limits:
                if not self._pending[key]:
                    del self._pending[key]
