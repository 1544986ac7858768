"""Programs on simulated nodes: each grant has one program after the other, with pauses."""

from __future__ import annotations

import math
import os
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from nodes.protocol import fleet_pb2
from nodes.protocol.session_ends import RELEASED

CLOSED_SECONDS = 60.0
"""Ended sessions are reported for this time."""
FIRST_PAUSE, PAUSE = (1.0, 6.0), (5.0, 60.0)
"""Seconds before the first program of a grant and between two programs."""
ISOLATION = (
    "file_system", "landlock", "network", "no_new_privs", "processes", "resource_limits",
    "seccomp", "user", "cgroup", "host_memory",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of program. Times are in seconds; levels and shares are between 0 and 1."""

    name: str
    level: float
    """Mean use of its share."""
    swing: float
    """Largest difference of its use from `level`."""
    period: float
    memory_share: float
    shortest: float
    longest: float


KINDS = (
    Kind("train.py", 0.93, 0.05, 40, 0.86, 600, 3600),
    Kind("finetune.py", 0.78, 0.2, 90, 0.74, 300, 2400),
    Kind("vllm", 0.45, 0.35, 25, 0.92, 900, 5400),
    Kind("ipykernel", 0.06, 0.06, 300, 0.22, 300, 2400),
    Kind("gmx", 0.97, 0.02, 60, 0.12, 600, 3000),
    Kind("pytest", 0.35, 0.3, 15, 0.18, 30, 240),
    Kind("idle.py", 0.0, 0.0, 60, 0.4, 3600, 7200),
)
WEIGHTS = (26, 18, 20, 16, 8, 8, 4)


@dataclass
class Session:
    kind: Kind
    allocation_id: bytes
    opened: float
    ends: float
    partition_bytes: Sequence[int]
    random: random.Random
    id: bytes = field(default_factory=lambda: uuid.uuid4().bytes)
    closed_at: float = 0.0
    end_reason: str = ""
    launches: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def __post_init__(self) -> None:
        self.pid = self.random.randrange(2_000, 60_000)
        self._advanced_at = self.opened

    def level(self, now: float) -> float:
        """Return the use of the session's share, between 0 and 1."""
        wave = math.sin(2 * math.pi * (now - self.opened) / self.kind.period)
        return min(max(self.kind.level + self.kind.swing * wave, 0.0), 1.0)

    def advance(self, now: float) -> None:
        """Count the work since the last call."""
        work = self.level(now) * max(now - self._advanced_at, 0.0)
        self._advanced_at = now
        self.launches += int(4_000 * work)
        self.bytes_in += int(90e6 * work)
        self.bytes_out += int(12e6 * work)

    def close(self, now: float, reason: str) -> None:
        self.closed_at, self.end_reason = now, reason

    def message(self) -> fleet_pb2.Session:
        used = [0] * len(self.partition_bytes) if self.closed_at else self.partition_bytes
        return fleet_pb2.Session(
            id=self.id,
            allocation_id=self.allocation_id,
            state="closed" if self.closed_at else "running",
            pid=self.pid,
            client_pid=self.pid + 7,
            client_address="simulated",
            program=self.kind.name,
            isolation=dict.fromkeys((*ISOLATION, "memory_limit", "compute_limit"), "enforced"),
            memory_bytes=sum(used),
            launches=self.launches,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            end_reason=self.end_reason,
            opened_seconds=int(self.opened),
            partition_bytes=used,
            longest_drain_ms=12 if self.launches else 0,
        )


class Programs:
    """The programs of one grant, one at a time. Not thread-safe."""

    def __init__(self, grant: fleet_pb2.Grant, now: float) -> None:
        self.grant = grant
        self.sessions: list[Session] = []
        self.is_ended = False
        self._random = random.Random(int.from_bytes(os.urandom(8)))
        self._next_start = now + self._random.uniform(*FIRST_PAUSE)

    @property
    def running(self) -> Session | None:
        return self.sessions[-1] if self.sessions and not self.sessions[-1].closed_at else None

    def share(self, now: float) -> fleet_pb2.ReceivedShare:
        """Return what the running program receives of its GPUs."""
        level = self.running.level(now) if self.running else 0.0
        percents = [level * p.compute_percent for p in self.grant.partitions]
        return fleet_pb2.ReceivedShare(
            allocation_id=self.grant.allocation_id, received_percent=percents
        )

    def resize(self, grant: fleet_pb2.Grant) -> None:
        """Take over the sizes of the partitions; a running program frees what is beyond them."""
        self.grant = grant
        if session := self.running:
            session.partition_bytes = self._use(session.kind)

    def end(self, now: float) -> None:
        """End the running program because its allocation has ended."""
        self.is_ended = True
        if session := self.running:
            session.close(now, RELEASED)

    def advance(self, now: float) -> None:
        """Start and end programs, count their work, and forget those that ended long ago."""
        session = self.running
        if session and now >= session.ends:
            session.close(now, "the program ended")
            self._next_start = now + self._random.uniform(*PAUSE)
        elif session:
            session.advance(now)
        elif not self.is_ended and now >= self._next_start:
            self._start(now)
        self.sessions = [
            s for s in self.sessions if not s.closed_at or now - s.closed_at < CLOSED_SECONDS
        ]

    def _start(self, now: float) -> None:
        (kind,) = self._random.choices(KINDS, WEIGHTS)
        seconds = self._random.uniform(kind.shortest, kind.longest)
        used = self._use(kind)
        self.sessions.append(
            Session(kind, self.grant.allocation_id, now, now + seconds, used, self._random)
        )

    def _use(self, kind: Kind) -> list[int]:
        return [int(p.memory_bytes * kind.memory_share) for p in self.grant.partitions]
