"""Comparison of the memory that NVML reports for session servers with the launcher's ledger.

A session server that a tenant has taken over can use memory that it does not charge. A session
that does so in three comparisons in a row is killed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodes.context_memory import UNMEASURED_CONTEXT_BYTES
from nodes.launcher_control import Grant, SessionReport

COMPARE_SECONDS = 5.0
COMPARISONS = 3
"""A release can lie between reading NVML and the ledger, so one comparison proves nothing."""
TOLERANCE_BYTES = 256 << 20
"""Code, events, streams and graphs, which the driver does not account for."""
TOLERANCE_PERCENT = 5
"""Of the charge: the driver rounds allocations up."""
MIB = 1 << 20

ProcessMemory = Mapping[uuid.UUID, Mapping[int, int]]
"""Bytes by GPU and process."""


@dataclass(frozen=True)
class Excess:
    """A session that uses more memory of a GPU than it may."""

    session_id: uuid.UUID
    gpu_uuid: uuid.UUID
    used_bytes: int
    charged_bytes: int

    def reason(self) -> str:
        return (
            f"it was killed: it used {self.used_bytes // MIB} MiB of a GPU and"
            f" charged {self.charged_bytes // MIB} MiB"
        )


@dataclass
class MemoryWatch:
    context_bytes: Mapping[uuid.UUID, int]
    """Memory of a context on each GPU."""
    _seen: dict[uuid.UUID, int] = field(default_factory=dict)
    """Comparisons in a row that found an excess, by session."""

    def permitted_bytes(self, gpu_uuid: uuid.UUID, charged: int) -> int:
        context = self.context_bytes.get(gpu_uuid, UNMEASURED_CONTEXT_BYTES)
        return charged + context + TOLERANCE_BYTES + charged * TOLERANCE_PERCENT // 100

    def compare(
        self, used: ProcessMemory, sessions: Sequence[SessionReport], grants: Sequence[Grant]
    ) -> list[Excess]:
        """Return the sessions to end. Read `used` before `sessions`: memory is charged first."""
        partitions = {g.allocation_id: g.partitions for g in grants}
        found = {}
        for s in sessions:
            for partition, charged in zip(
                partitions.get(s.allocation_id, ()), s.partition_bytes, strict=False
            ):
                bytes_used = used.get(partition.gpu_uuid, {}).get(s.pid, 0)
                if s.state == "running" and bytes_used > self.permitted_bytes(
                    partition.gpu_uuid, charged
                ):
                    found[s.session_id] = Excess(
                        s.session_id, partition.gpu_uuid, bytes_used, charged
                    )
        self._seen = {session: self._seen.get(session, 0) + 1 for session in found}
        return [e for session, e in found.items() if self._seen[session] >= COMPARISONS]
