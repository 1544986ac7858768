"""Lanes: limits of pending requests, so that strangers take no capacity from running work.

A request without a token that was valid lately is in the lane ANONYMOUS, whatever it requests.
Each address has a part of that lane at most, and each account a part of the others. Event loop
only.
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
    PROVIDER = "provider"
    """Requests that wait for an identity provider; anybody can send them."""
    INSTALLATION = "installation"
    """Files of the client's installation. They need a thread only until the first byte."""


LIMITS = {
    Lane.READ: 256,
    Lane.WRITE: 256,
    Lane.RENEWAL: 256,
    Lane.ANONYMOUS: 128,
    Lane.PROVIDER: 32,
    Lane.INSTALLATION: 1024,
}
LIMITS_PER_ADDRESS = {Lane.ANONYMOUS: 64, Lane.PROVIDER: 8, Lane.INSTALLATION: 256}
LIMIT_PER_ACCOUNT = 192
"""Of the other lanes, so that one account does not keep the others out."""


class LaneFullError(Exception):
    """Too many requests of the lane are pending."""


class Lanes:
    def __init__(self) -> None:
        self._pending: Counter[Lane | tuple[Lane, str]] = Counter()
        """By lane, and also by network of the client (lanes of strangers) or by account."""

    @contextmanager
    def enter(self, lane: Lane, address: str, account: str = "") -> Iterator[None]:
        """Count a pending request. Raises LaneFullError if there are too many.

        `account` is that of the token, for lanes other than those of strangers.
        """
        limits: dict[Lane | tuple[Lane, str], int] = {lane: LIMITS[lane]}
        if lane in LIMITS_PER_ADDRESS:
            limits[lane, client_network(address)] = LIMITS_PER_ADDRESS[lane]
        else:
            limits[lane, account] = LIMIT_PER_ACCOUNT
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
