"""Rate limit of one agent: its messages take at most a small share of the appliance's time.

A message is charged by counts, never by the time that passed: a slow disk or a busy appliance does
not slow down honest nodes.
"""

from __future__ import annotations

import time
from collections import OrderedDict

from nodes.protocol import fleet_pb2

SHARE = 0.05
"""Seconds of work that a node may cause per second."""
BURST_SECONDS = 1.0
"""Work that a node may cause at once."""
CONNECTION_SECONDS, REFUSAL_SECONDS = 0.01, 0.1
MESSAGE_SECONDS, SESSION_SECONDS, BYTE_SECONDS, ROW_SECONDS = 5e-4, 8e-6, 1e-8, 2.5e-4
"""Work for one of each; a row is one that is written. Sessions and bytes are measured (parsing and
checking); the other figures are estimates."""
EVENT_INTERVAL_SECONDS = 60.0
MAX_BUDGETS = 1 << 14


class MessageBudget:
    """Budget of one certificate. It recovers with time and outlives the stream."""

    def __init__(self) -> None:
        self._balance, self._at = BURST_SECONDS, time.monotonic()
        self._event_at = -EVENT_INTERVAL_SECONDS

    def charge(self, seconds: float) -> float:
        """Charge an amount of work. Return the seconds until the balance is positive again."""
        now = time.monotonic()
        recovered = self._balance + (now - self._at) * SHARE
        self._balance, self._at = min(recovered, BURST_SECONDS) - seconds, now
        return max(-self._balance / SHARE, 0.0)

    def permits_event(self) -> bool:
        """Return whether a refusal may make an event now: one in EVENT_INTERVAL_SECONDS."""
        now = time.monotonic()
        if now - self._event_at < EVENT_INTERVAL_SECONDS:
            return False
        self._event_at = now
        return True


class MessageBudgets:
    """Budgets by serial of the certificate; the ones that were not used for longest are dropped."""

    def __init__(self) -> None:
        self._budgets: OrderedDict[str, MessageBudget] = OrderedDict()

    def of(self, serial: str) -> MessageBudget:
        budget = self._budgets.setdefault(serial, MessageBudget())
        self._budgets.move_to_end(serial)
        if len(self._budgets) > MAX_BUDGETS:
            self._budgets.popitem(last=False)
        return budget


def work_of(message: fleet_pb2.AgentMessage) -> float:
    """Return the seconds of work for a valid message, without the rows that it writes."""
    return (
        MESSAGE_SECONDS
        + SESSION_SECONDS * len(message.report.sessions)
        + BYTE_SECONDS * message.ByteSize()
    )
