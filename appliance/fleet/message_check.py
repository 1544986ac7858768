"""Validation of agent messages, before they leave the gateway.

Each check is bounded: a count is compared before its elements are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from nodes.protocol import fleet_pb2, limits

MAX_INDEX, MAX_PORT = 1 << 12, (1 << 16) - 1
SESSION_STATES = frozenset({"opening", "running", "suspended", "closed"})
SUSPENSION_STATES = frozenset(
    {"suspending", "suspended", "waiting", "resuming", "running", "failed"}
)
LINK = re.compile(r"NV\d{1,3}|PSB|PIX|PXB|PHB|NODE|SYS")


class InvalidMessageError(ValueError):
    """A message that no correct agent sends."""


def check_message(m: fleet_pb2.AgentMessage) -> None:
    """Raise InvalidMessageError for a message outside the protocol's limits."""
    if not m.boot_id:
        raise InvalidMessageError("boot_id is empty")
    check_text("boot_id", m.boot_id, limits.MAX_NAME)
    match m.WhichOneof("body"):
        case "inventory":
            check_inventory(m.inventory)
        case "report":
            check_report(m.report)
        case "samples":
            check_samples(m.samples)
        case None:
            raise InvalidMessageError("the message has no known body")


def check_text(field: str, text: str, maximum: int) -> None:
    if len(text) > maximum:
        raise InvalidMessageError(f"{field} has {len(text)} characters, at most {maximum}")
    if not text.isprintable():
        raise InvalidMessageError(f"{field} has unprintable characters")


def check_number(field: str, value: int, maximum: int = limits.MAX_NUMBER) -> None:
    if not 0 <= value <= maximum:
        raise InvalidMessageError(f"{field} is {value}, not between 0 and {maximum}")


def check_count(field: str, count: int, maximum: int) -> None:
    if count > maximum:
        raise InvalidMessageError(f"{field}: {count} elements, at most {maximum}")


def check_ids(field: str, ids: Iterable[bytes]) -> None:
    """Check that ids are UUIDs and different from each other."""
    seen = set()
    for each in ids:
        if len(each) != 16:
            raise InvalidMessageError(f"{field} has {len(each)} bytes, not 16")
        if each in seen:
            raise InvalidMessageError(f"{field} {each.hex()} occurs twice")
        seen.add(each)


def check_inventory(i: fleet_pb2.Inventory) -> None:
    check_text("agent_version", i.agent_version, limits.MAX_NAME)
    check_text("driver_version", i.driver_version, limits.MAX_NAME)
    check_text("cuda_version", i.cuda_version, limits.MAX_SHORT)
    check_text("operating_system", i.operating_system, limits.MAX_TEXT)
    check_count("isolation", len(i.isolation), limits.MAX_ISOLATION_MEASURES)
    for layer in i.isolation:
        check_text("isolation", layer, limits.MAX_NAME)
    check_count("endpoints", len(i.endpoints), limits.MAX_ENDPOINTS)
    for e in i.endpoints:
        check_text("endpoint.address", e.address, limits.MAX_ADDRESS)
        check_number("endpoint.port", e.port, MAX_PORT)
    check_count("gpus", len(i.gpus), limits.MAX_GPUS)
    check_ids("gpu.uuid", (g.uuid for g in i.gpus))
    for g in i.gpus:
        check_gpu(g)


def check_gpu(g: fleet_pb2.Gpu) -> None:
    check_number("gpu.index", g.index, MAX_INDEX)
    check_text("gpu.model", g.model, limits.MAX_TEXT)
    if not 0 < g.memory_bytes <= limits.MAX_GPU_MEMORY_BYTES:
        raise InvalidMessageError("gpu.memory_bytes is no size of a memory")
    check_text("gpu.compute_capability", g.compute_capability, limits.MAX_SHORT)
    check_text("gpu.pci_bus_id", g.pci_bus_id, limits.MAX_SHORT)
    check_number("gpu.context_bytes", g.context_bytes, limits.MAX_GPU_MEMORY_BYTES)
    check_count("gpu.links", len(g.links), limits.MAX_GPUS)
    for index, link in g.links.items():
        check_number("gpu.links", index, MAX_INDEX)
        if not LINK.fullmatch(link):
            raise InvalidMessageError("gpu.links: the kind of a link is unknown")


def check_report(r: fleet_pb2.Report) -> None:
    check_number("generation", r.generation)
    check_count("sessions", len(r.sessions), limits.MAX_SESSIONS)
    check_ids("session.id", (s.id for s in r.sessions))
    for s in r.sessions:
        check_session(s)
    check_count("over", len(r.over), limits.MAX_ALLOCATIONS)
    check_ids("over.allocation_id", (h.allocation_id for h in r.over))
    for h in r.over:
        check_count("over.held_bytes", len(h.held_bytes), limits.MAX_PARTITIONS)
        for held in h.held_bytes:
            check_number("over.held_bytes", held)
    check_suspensions(r.suspensions)
    check_shares(r.shares)


def check_suspensions(reported: Sequence[fleet_pb2.Suspension]) -> None:
    check_count("suspensions", len(reported), limits.MAX_ALLOCATIONS)
    check_ids("suspension.allocation_id", (s.allocation_id for s in reported))
    for s in reported:
        if s.state not in SUSPENSION_STATES:
            raise InvalidMessageError("suspension.state is unknown")
        check_number("suspension.revision", s.revision)
        check_number("suspension.released_bytes", s.released_bytes)
        check_text("suspension.reason", s.reason, limits.MAX_TEXT)


def check_shares(reported: Sequence[fleet_pb2.ReceivedShare]) -> None:
    check_count("shares", len(reported), limits.MAX_ALLOCATIONS)
    check_ids("share.allocation_id", (s.allocation_id for s in reported))
    for s in reported:
        check_count("share.received_percent", len(s.received_percent), limits.MAX_PARTITIONS)
        for percent in s.received_percent:
            if not (0 <= percent <= 100 or math.isnan(percent)):
                raise InvalidMessageError("share.received_percent is no percentage")


def check_session(s: fleet_pb2.Session) -> None:
    if len(s.allocation_id) != 16:
        raise InvalidMessageError("session.allocation_id has not 16 bytes")
    if s.state not in SESSION_STATES:
        raise InvalidMessageError("session.state is unknown")
    check_number("session.pid", s.pid, limits.MAX_PID)
    check_number("session.client_pid", s.client_pid, limits.MAX_PID)
    check_number("session.opened_seconds", s.opened_seconds, limits.MAX_SECONDS)
    check_text("session.client_address", s.client_address, limits.MAX_NAME)
    check_text("session.program", s.program, limits.MAX_NAME)
    check_text("session.end_reason", s.end_reason, limits.MAX_TEXT)
    for name in ("memory_bytes", "launches", "bytes_in", "bytes_out", "longest_drain_ms"):
        check_number(f"session.{name}", getattr(s, name))
    check_session_lists(s)


def check_session_lists(s: fleet_pb2.Session) -> None:
    check_count("session.isolation", len(s.isolation), limits.MAX_ISOLATION_MEASURES)
    for measure, status in s.isolation.items():
        check_text("session.isolation", measure, limits.MAX_NAME)
        check_text("session.isolation", status, limits.MAX_TEXT)
    check_count("session.refused_calls", len(s.refused_calls), limits.MAX_REFUSED_CALLS)
    for name in s.refused_calls:
        check_text("session.refused_calls", name, limits.MAX_NAME)
    check_count("session.partition_bytes", len(s.partition_bytes), limits.MAX_PARTITIONS)
    for used in s.partition_bytes:
        check_number("session.partition_bytes", used)


def check_samples(s: fleet_pb2.Samples) -> None:
    check_count("metrics", len(s.metrics), limits.MAX_METRICS)
    if len(set(s.metrics)) != len(s.metrics):
        raise InvalidMessageError("metrics: a name occurs twice")
    if "" in s.metrics:
        raise InvalidMessageError("metrics: a name is empty")
    for name in s.metrics:
        check_text("metrics", name, limits.MAX_NAME)
    check_count("gpus", len(s.gpus), limits.MAX_GPUS)
    check_ids("gpu_uuid", (g.gpu_uuid for g in s.gpus))
    for g in s.gpus:
        if len(g.values) != len(s.metrics):
            raise InvalidMessageError("gpus: the number of values differs from that of metrics")
