"""Rate limits of agents: each one, and all together, take at most a share of the appliance's time.

A message is charged by counts, never by the time that passed: a slow disk or a busy appliance does
not slow down honest nodes. `./bench hardening --only charges` compares the constants with the time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nodes.protocol import fleet_pb2

SHARE, BURST_SECONDS = 0.05, 1.0
"""Seconds of work that a node may cause per second, and at once."""
COMMON_SHARE, COMMON_BURST_SECONDS = 0.3, 0.1
"""The same for all nodes together."""
CONNECTION_SECONDS, REFUSAL_SECONDS = 0.01, 0.1
MESSAGE_SECONDS, CHECK_SECONDS, BYTE_SECONDS = 2.5e-4, 6e-6, 1e-8
"""Work of the gateway for a message, for each of its sessions and for each byte."""
PART_SECONDS, READ_SECONDS, COMPARED_SECONDS, ROW_SECONDS = 5e-4, 7e-6, 3e-5, 2.3e-4
"""Work of the controller for a transaction, for a session that it reads or compares, and for a row
that it writes."""
LARGEST_PART_SECONDS = 0.025
"""Taken from the common budget while a part of a message is applied, until its work is known."""
MAX_TURNS = 2
"""Parts that the controller applies or queues at once. Other writes wait behind them, however slow
the machine is. With two, the controller has the next part when it has applied one."""
EVENT_INTERVAL_SECONDS = 60.0
MAX_BUDGETS = 1 << 14


@dataclass
class Turn:
    """Permission to let the controller apply a part of a message."""

    seconds: float = LARGEST_PART_SECONDS
    """Work of the part; that of the largest one if it fails."""


class CommonBudget:
    """Budget of all nodes. The node that has the most left of its own budget is next."""

    def __init__(self) -> None:
        self._balance, self._at = COMMON_BURST_SECONDS, time.monotonic()
        self._turns = 0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self, own_balance: float) -> None:
        """Wait for a turn and a positive balance, and take the work of the largest part from it.

        `leave` must follow, unless the wait is cancelled.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-own_balance, next(self._numbers), turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was this one's turn at the same moment
                self.leave(0)
            raise

    def leave(self, seconds: float) -> None:
        """End a turn, and replace the work of the largest part by the real one."""
        self._turns -= 1
        self.charge(seconds - LARGEST_PART_SECONDS)

    def charge(self, seconds: float) -> None:
        """Charge work that does not wait for a turn."""
        self._balance -= seconds
        self._admit()

    def _admit(self) -> None:
        """Let the next ones enter while turns and balance last; try again when it is positive."""
        now = time.monotonic()
        recovered = self._balance + (now - self._at) * COMMON_SHARE
        self._balance, self._at = min(recovered, COMMON_BURST_SECONDS), now
        while self._waiting and self._balance > 0 and self._turns < MAX_TURNS:
            *_, turn = heapq.heappop(self._waiting)
            if not turn.done():  # else its stream has ended
                turn.set_result(None)
                self._turns += 1
                self._balance -= LARGEST_PART_SECONDS
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and self._balance <= 0:  # else the end of a turn admits the next
            pause = -self._balance / COMMON_SHARE + 1e-3
            self._timer = asyncio.get_running_loop().call_later(pause, self._admit)


class MessageBudget:
    """Budget of one certificate. It recovers with time and outlives the stream."""

    def __init__(self, common: CommonBudget) -> None:
        self._balance, self._at = BURST_SECONDS, time.monotonic()
        self._event_at = -EVENT_INTERVAL_SECONDS
        self._common = common
        self._heartbeat_at = -1e9

    def charge(self, seconds: float) -> float:
        """Charge an amount of work. Return the seconds until the balance is positive again."""
        now = time.monotonic()
        recovered = self._balance + (now - self._at) * SHARE
        self._balance, self._at = min(recovered, BURST_SECONDS) - seconds, now
        return max(-self._balance / SHARE, 0.0)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """Wait for a turn of the common budget. The caller sets the work of its part.

        Charges both budgets in the end, and waits until the node's own one is positive.
        """
        self.charge(0)
        await self._common.enter(self._balance)
        turn = Turn()
        try:
            yield turn
        finally:
            self._common.leave(turn.seconds)
        await asyncio.sleep(self.charge(turn.seconds))

    async def receive(self, message: fleet_pb2.AgentMessage, heartbeat_seconds: float) -> None:
        """Charge a message that was received, and wait while a budget is spent.

        One heartbeat or sample in half a heartbeat interval does not wait for the common budget,
        so other nodes do not delay it.
        """
        work = work_of(message)
        is_heartbeat = message.WhichOneof("body") in ("samples", "heartbeat")
        if is_heartbeat and time.monotonic() - self._heartbeat_at >= heartbeat_seconds / 2:
            self._heartbeat_at = time.monotonic()
            self._common.charge(work)
            await asyncio.sleep(self.charge(work))
        else:
            async with self.turn() as turn:
                turn.seconds = work

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
        self._common = CommonBudget()

    def of(self, serial: str) -> MessageBudget:
        budget = self._budgets.get(serial) or MessageBudget(self._common)
        self._budgets[serial] = budget
        self._budgets.move_to_end(serial)
        if len(self._budgets) > MAX_BUDGETS:
            self._budgets.popitem(last=False)
        return budget


def work_of(message: fleet_pb2.AgentMessage) -> float:
    """Return the seconds of work of the gateway for a valid message."""
    return (
        MESSAGE_SECONDS
        + CHECK_SECONDS
        * (
            len(message.report.sessions)
            + len(message.report.over)
            + len(message.report.suspensions)
        )
        + BYTE_SECONDS * message.ByteSize()
    )


def work_of_part(rows: int, compared: int = 0, read: int = 0) -> float:
    """Return the seconds of work of the controller for a part of a message."""
    return PART_SECONDS + ROW_SECONDS * rows + COMPARED_SECONDS * compared + READ_SECONDS * read
