"""Delays between failed logins, by client and by account. No account is ever locked.

Each attempt is charged to one or two counters before its password is checked, and refunded if the
password was right. After some free attempts a counter spaces further ones by a growing delay.
Attempts of an unknown client count for its address and for the account. A known client has signed
in before: it presents the device cookie or uses the same address. It has a counter of its own, so
failures of strangers do not delay it.

Thread safety: event loop of the HTTP server only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from appliance.api.errors import ApplianceError, Code
from appliance.runtime.client_network import client_network
from appliance.runtime.recent import RecentEntries

MAX_HOLD_SECONDS = 5.0
"""Attempts that would have to wait longer are rejected."""
FORGET_SECONDS = 900.0
"""A counter without attempts for this time starts again."""
KNOWN_ADDRESS_SECONDS = 30 * 86400.0
MAX_ENTRIES = 10_000
"""Of counters, and of known addresses."""

Key = tuple[str, ...]


@dataclass(frozen=True)
class Pace:
    """The first `free` attempts have no delay. It then doubles from 1 s to the maximum."""

    free: int
    max_delay_seconds: float

    def delay_after(self, attempts: int) -> float:
        exponent = attempts - self.free
        return min(2.0 ** min(exponent, 30), self.max_delay_seconds) if exponent >= 0 else 0.0


ADDRESS, ACCOUNT, KNOWN_CLIENT = Pace(5, 60.0), Pace(20, 15.0), Pace(10, 2.0)


@dataclass
class Counter:
    attempts: int = 0
    free_at: float = 0.0
    """Monotonic time at which the next attempt may start."""
    used_at: float = 0.0


@dataclass(frozen=True)
class Attempt:
    """A charged attempt. It may start at `start_at` (monotonic)."""

    address: str
    account: str
    counters: tuple[Counter, ...]
    start_at: float
    known: bool


class LoginLimits:
    def __init__(self) -> None:
        self._counters: RecentEntries[Key, Counter] = RecentEntries(MAX_ENTRIES)
        self._known_addresses: RecentEntries[Key, float] = RecentEntries(MAX_ENTRIES)

    def charge(self, address: str, account: str, device: str | None, now: float) -> Attempt:
        """Charge an attempt. `device` is the id in a device cookie of this account.

        Raises ApplianceError (TOO_MANY_ATTEMPTS) if it would have to wait too long; such an
        attempt is not charged.
        """
        network = client_network(address)
        known = device is not None or self._is_known(network, account, now)
        paces = self._paces(network, account, device, known)
        counters = tuple(self._counter(key, now) for key in paces)
        start_at = max(now, *(counter.free_at for counter in counters))
        if start_at - now > MAX_HOLD_SECONDS:
            seconds = math.ceil(start_at - now)
            raise ApplianceError(
                Code.TOO_MANY_ATTEMPTS,
                f"Too many attempts; try again in {seconds} s.",
                retry_after_seconds=seconds,
            )
        for counter, pace in zip(counters, paces.values(), strict=True):
            counter.attempts += 1
            counter.used_at = now
            counter.free_at = start_at + pace.delay_after(counter.attempts)
        return Attempt(network, account, counters, start_at, known)

    def refund(self, attempt: Attempt, now: float) -> None:
        """Refund an attempt with the right password that lacked something else."""
        for counter in attempt.counters:
            counter.attempts -= 1
            counter.free_at = min(counter.free_at, now)

    def succeed(self, attempt: Attempt, now: float) -> None:
        """Refund a successful attempt and remember the client."""
        self.refund(attempt, now)
        self._known_addresses.store((attempt.address, attempt.account), now)

    @staticmethod
    def _paces(network: str, account: str, device: str | None, known: bool) -> dict[Key, Pace]:
        if device is not None:
            return {("device", device): KNOWN_CLIENT}
        if known:
            return {("client", network, account): KNOWN_CLIENT}
        return {("address", network): ADDRESS, ("account", account): ACCOUNT}

    def _is_known(self, network: str, account: str, now: float) -> bool:
        signed_in_at = self._known_addresses.get((network, account))
        return signed_in_at is not None and now - signed_in_at < KNOWN_ADDRESS_SECONDS

    def _counter(self, key: Key, now: float) -> Counter:
        counter = self._counters.get(key)
        if counter is None or now - counter.used_at > FORGET_SECONDS:
            counter = Counter()
        self._counters.store(key, counter)
        return counter
