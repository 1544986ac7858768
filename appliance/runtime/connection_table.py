"""Open connections of a port and their limits.

A connection is anonymous until a request or WebSocket on it has presented a valid token. Anonymous
connections have a limit in total and by address. When a limit is reached, the oldest anonymous
connection makes room for the new one, so connections that stay silent never keep anybody out.
If none is anonymous, the account with the most connections loses its oldest one, so no account
keeps the others out. Connections that were authenticated without an account are not evicted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Protocol


class Member(Protocol):
    """A connection in the table."""

    network: str
    """Address of the client, or its IPv6 network."""
    expires_at: float
    """Time on the clock of the port at which the connection is closed; may be infinite."""

    def abort(self) -> None:
        """Close the connection at once. It leaves the table later, by `remove`."""


@dataclass(frozen=True)
class ConnectionLimits:
    total: int
    anonymous: int
    anonymous_per_address: int


def discard(groups: dict[str, dict[Member, None]], name: str, member: Member) -> None:
    """Remove a connection from a group, and the group if it is then empty."""
    if (group := groups.get(name)) is not None:
        group.pop(member, None)
        if not group:
            del groups[name]


class ConnectionTable:
    """Event loop only."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._members: dict[Member, str] = {}
        """The account of each connection; empty without one."""
        self._anonymous: dict[Member, None] = {}
        """Oldest first, as are the connections of each address."""
        self._by_network: defaultdict[str, dict[Member, None]] = defaultdict(dict)
        self._by_account: defaultdict[str, dict[Member, None]] = defaultdict(dict)
        self.evicted = 0
        """Number of connections that were closed to make room."""

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: Member) -> bool:
        """Add an anonymous connection and evict others beyond the limits.

        Return False if the total limit is reached and no account has two connections.
        """
        neighbours = self._by_network.get(member.network, {})
        if len(neighbours) >= self._limits.anonymous_per_address:
            self._evict(next(iter(neighbours)))
        if len(self._anonymous) >= self._limits.anonymous:
            self.evict_oldest()
        if len(self._members) >= self._limits.total and not (
            self.evict_oldest() or self._evict_of_largest_account()
        ):
            return False
        self._members[member], self._anonymous[member] = "", None
        self._by_network[member.network][member] = None
        return True

    def authenticate(self, member: Member, account: str = "") -> None:
        """Record that valid credentials were presented, those of an account if it has a name."""
        if member not in self._members:  # evicted, and not closed yet
            return
        self._anonymous.pop(member, None)
        discard(self._by_network, member.network, member)
        if self._members[member] != account:
            discard(self._by_account, self._members[member], member)
            self._members[member] = account
        if account:
            self._by_account[account][member] = None

    def remove(self, member: Member) -> None:
        self._anonymous.pop(member, None)
        discard(self._by_network, member.network, member)
        discard(self._by_account, self._members.pop(member, ""), member)

    def evict_oldest(self) -> bool:
        """Close the oldest anonymous connection. Return False if there is none."""
        oldest = next(iter(self._anonymous), None)
        if oldest is not None:
            self._evict(oldest)
        return oldest is not None

    def _evict_of_largest_account(self) -> bool:
        """Close the oldest connection of the account with the most, unless that is its only one."""
        most = max(self._by_account.values(), key=len, default={})
        if len(most) < 2:
            return False
        self._evict(next(iter(most)))
        return True

    def _evict(self, member: Member) -> None:
        self.remove(member)
        self.evicted += 1
        member.abort()

    def close_expired(self, now: float) -> None:
        """Close the connections whose time has come."""
        for member in [m for m in self._members if m.expires_at <= now]:
            member.expires_at = math.inf
            member.abort()
