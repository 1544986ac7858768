"""Content of the agent's messages, within the limits of the protocol."""

from __future__ import annotations

import math
import platform
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from google.protobuf.message import Message

from nodes.gpus import Gpu, Nvml
from nodes.host_access import HOST_MEMORY
from nodes.launcher_control import SessionList, SessionReport
from nodes.launcher_layouts import UNKNOWN_SHARE, Holding, ShareRecord
from nodes.protocol import fleet_pb2, limits
from nodes.protocol.limits import printable
from nodes.suspending import SUSPENDED, Outcome
from nodes.version import AGENT_VERSION

REPORT_BYTES = limits.MAX_MESSAGE_BYTES - 1024
"""Size of a report; the rest of the message is smaller than 1 KiB."""
REASON_BYTES = 256 << 10
"""Size of the reasons of suspensions in a report."""
MAX_PREFIX_BYTES = 4
"""Tag and length of a message in a report."""
NOT_ENFORCED = {
    "user": "the spawner may not give cages users of their own",
    "cgroup": "the spawner may not make control groups",
    "seccomp": "the kernel refused the filter",
    "no_new_privs": "the kernel refused it",
    "resource_limits": "the kernel refused them",
    "file_system": "the spawner may not make namespaces",
    "network": "the spawner may not make namespaces",
    "processes": "the spawner may not make namespaces",
    "landlock": "the kernel has no Landlock",
    HOST_MEMORY: "kernels can address the memory of the session server",
}
COMPUTE_LIMIT = {
    "turns": "enforced",
    "alone": "not needed: no other allocation uses the GPU",
    "coarse": "enforced with a larger error: work needed more than 90 ms to end after a turn",
    "sliced": "time slicing: a turn did not end in 500 ms",
    "bypassed": "unenforced: by NVML the session used more of a GPU than it had turns for",
    "unenforced": "unenforced: the session has no connection to the launcher",
}
"""By the name of the enforcement. The appliance shows the greatest text for an allocation."""


def isolation_of(s: SessionReport) -> dict[str, str]:
    """Return "enforced" or the reason why not, for each isolation mechanism."""
    out = {name: "enforced" if on else NOT_ENFORCED[name] for name, on in s.isolation.items()}
    out["memory_limit"] = "enforced"
    out["compute_limit"] = COMPUTE_LIMIT[s.enforcement]
    return out


def encode_inventory(
    nvml: Nvml,
    gpus: Sequence[Gpu],
    context_bytes: Mapping[uuid.UUID, int],
    addresses: Sequence[str],
    port: int,
    isolation: Sequence[str] = (),
    *,
    suspends: bool = False,
    resizes: bool = False,
) -> fleet_pb2.Inventory:
    return fleet_pb2.Inventory(
        agent_version=AGENT_VERSION,
        driver_version=printable(nvml.driver_version(), limits.MAX_NAME),
        cuda_version=nvml.cuda_version(),
        operating_system=printable(platform.platform(), limits.MAX_TEXT),
        software=nvml.software(),
        isolation=isolation,
        suspends=suspends,
        resizes=resizes,
        endpoints=[
            fleet_pb2.Endpoint(address=printable(a, limits.MAX_ADDRESS), port=port)
            for a in addresses[: limits.MAX_ENDPOINTS]
        ],
        gpus=[encode_gpu(g, context_bytes.get(g.uuid)) for g in gpus[: limits.MAX_GPUS]],
    )


def encode_gpu(g: Gpu, context_bytes: int | None = None) -> fleet_pb2.Gpu:
    return fleet_pb2.Gpu(
        uuid=g.uuid.bytes,
        index=g.index,
        model=printable(g.model, limits.MAX_NAME),
        memory_bytes=g.memory_bytes,
        compute_capability=g.compute_capability,
        pci_bus_id=printable(g.pci_bus_id, limits.MAX_SHORT),
        mig=g.mig,
        links=dict(g.links),
        context_bytes=context_bytes,
    )


def encode_report(listed: SessionList, outcomes: Sequence[Outcome] = ()) -> fleet_pb2.Report:
    """Return a report of all open sessions and of the newest ended ones, within the limits.

    The appliance ends an open session, and frees memory over a size, that a report leaves out.
    So these come first, and the rest as far as there is room.
    """
    order = sorted(listed.sessions, key=lambda s: (s.state == "closed", -s.opened_seconds))
    order = order[: limits.MAX_SESSIONS]
    open_count = sum(s.state != "closed" for s in order)
    encode = partial(encode_session, suspended=suspended_sessions(listed))
    report = fleet_pb2.Report(generation=listed.generation)
    if listed.over is not None:
        report.knows_over = True
        report.over.extend(map(encode_holding, listed.over[: limits.MAX_ALLOCATIONS]))
    room = REPORT_BYTES - report.ByteSize()
    room = append(report.sessions, map(encode, order[:open_count]), room)
    room = append(report.suspensions, encode_outcomes(outcomes[: limits.MAX_ALLOCATIONS]), room)
    room = append(report.shares, map(encode_share, listed.shares[: limits.MAX_ALLOCATIONS]), room)
    append(report.sessions, map(encode, order[open_count:]), room)
    return report


def append(field: Any, messages: Iterable[Message], room: int) -> int:
    """Append messages to a repeated field while there are bytes left. Return those left."""
    for message in messages:
        room -= message.ByteSize() + MAX_PREFIX_BYTES
        if room < 0:
            return 0
        field.append(message)
    return room


def encode_holding(h: Holding) -> fleet_pb2.Holding:
    return fleet_pb2.Holding(
        allocation_id=h.allocation,
        held_bytes=[min(held, limits.MAX_NUMBER) for held in h.held_bytes],
    )


def encode_share(s: ShareRecord) -> fleet_pb2.ReceivedShare:
    """Return the shares in percent up to the last known one. The launcher lists none without."""
    shares = [math.nan if share == UNKNOWN_SHARE else share / 100 for share in s.received]
    known = max(i + 1 for i, share in enumerate(shares) if not math.isnan(share))
    return fleet_pb2.ReceivedShare(allocation_id=s.allocation, received_percent=shares[:known])


def encode_outcomes(outcomes: Sequence[Outcome]) -> Iterator[fleet_pb2.Suspension]:
    """Yield all outcomes. The last ones have no reason if there are very many long ones."""
    room = REASON_BYTES
    for encoded in map(encode_outcome, outcomes):
        room -= len(encoded.reason.encode())
        if room < 0:
            encoded.reason = ""
        yield encoded


def encode_outcome(o: Outcome) -> fleet_pb2.Suspension:
    return fleet_pb2.Suspension(
        allocation_id=o.allocation_id.bytes,
        revision=o.revision,
        state=o.state,
        released_bytes=min(o.released_bytes, limits.MAX_NUMBER),
        reason=printable(o.reason, limits.MAX_TEXT),
    )


def suspended_sessions(listed: SessionList) -> frozenset[uuid.UUID]:
    """Return the sessions whose device memory is in host memory."""
    reports = listed.suspensions.sessions if listed.suspensions else ()
    return frozenset(r.session_id for r in reports if r.state in SUSPENDED)


def encode_session(
    s: SessionReport, suspended: Collection[uuid.UUID] = frozenset()
) -> fleet_pb2.Session:
    """Return a session within the limits, whatever the program and its session server claim."""
    return fleet_pb2.Session(
        id=s.session_id.bytes,
        allocation_id=s.allocation_id.bytes,
        state="suspended" if s.session_id in suspended else s.state,
        pid=min(s.pid, limits.MAX_PID),
        client_pid=min(s.client_pid, limits.MAX_PID),
        client_address=printable(s.client_address, limits.MAX_NAME),
        program=printable(s.program, limits.MAX_NAME),
        isolation=isolation_of(s),
        memory_bytes=min(s.memory_bytes, limits.MAX_NUMBER),
        launches=min(s.launches, limits.MAX_NUMBER),
        bytes_in=min(s.bytes_in, limits.MAX_NUMBER),
        bytes_out=min(s.bytes_out, limits.MAX_NUMBER),
        end_reason=printable(s.reason, limits.MAX_TEXT),
        opened_seconds=min(s.opened_seconds, limits.MAX_SECONDS),
        refused_calls=[
            printable(name, limits.MAX_NAME) for name in s.refused_calls[: limits.MAX_REFUSED_CALLS]
        ],
        partition_bytes=[min(used, limits.MAX_NUMBER) for used in s.partition_bytes],
        longest_drain_ms=s.longest_drain_ms,
    )
