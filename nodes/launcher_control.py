"""Client of the launcher's control socket: sends grants, reads sessions."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TypeVar

from nodes import launcher_layouts as layouts
from nodes.launcher_layouts import ComputeMode, Enforcement, Isolation, Kind, SessionState
from nodes.suspensions import SuspensionList, decode_suspensions

TIMEOUT_SECONDS = 10.0
MAX_REASON_BYTES = 103
ISOLATION_MEASURES = {
    "seccomp": Isolation.SECCOMP,
    "no_new_privs": Isolation.NO_NEW_PRIVS,
    "resource_limits": Isolation.RESOURCE_LIMITS,
    "user": Isolation.USER,
    "cgroup": Isolation.CGROUP,
    "file_system": Isolation.FILE_SYSTEM,
    "network": Isolation.NETWORK,
    "processes": Isolation.PROCESSES,
    "landlock": Isolation.LANDLOCK,
}


COMPUTE_MODES = {mode.name.lower(): mode for mode in ComputeMode}

UNKNOWN_MEASURE = 1 << 31
"""A bit that no session server has, for measures that this version does not know."""


def bits_of(measures: Collection[str]) -> int:
    bits = 0
    for name in measures:
        bits |= int(ISOLATION_MEASURES.get(name, UNKNOWN_MEASURE))
    return bits


def mode_of(name: str) -> int:
    """Return the mode of the launcher. One that this version does not know counts as shared."""
    return int(COMPUTE_MODES.get(name, ComputeMode.SHARED))


class LauncherError(Exception):
    """The launcher is unreachable, rejected a request or sent a malformed response."""


class SuspensionRefusedError(LauncherError):
    """The launcher does not suspend or resume a session; the text is its reason."""


class LauncherClosedError(LauncherError):
    """The launcher closed the connection in place of a response."""


@dataclass(frozen=True)
class Partition:
    """A partition of one GPU of this node."""

    gpu_uuid: uuid.UUID
    memory_bytes: int
    compute_percent: int
    context_bytes: int = 0
    """Of it for the context of a session. Each further context takes as much."""

    def layout(self) -> layouts.Partition:
        return layouts.Partition(self.gpu_uuid.bytes, self.memory_bytes, self.compute_percent)


@dataclass(frozen=True)
class Grant:
    """The permission to open sessions of one allocation on this node."""

    allocation_id: uuid.UUID
    tenant_id: uuid.UUID
    fence_epoch: int
    fence_counter: int
    partitions: tuple[Partition, ...]
    required_isolation: frozenset[str] = frozenset()
    """Layers without which the launcher refuses sessions."""
    compute_mode: str = "shared"
    """A name of COMPUTE_MODES. It determines the meaning of the partitions' percentages."""
    max_late_seconds: int = 0
    """Sessions end when their work is late for longer while others wait; 0: they do not."""

    def layout(self) -> layouts.Allocation:
        unused = (0,) * (layouts.MAX_DEVICES - len(self.partitions))
        return layouts.Allocation(
            id=self.allocation_id.bytes,
            tenant=self.tenant_id.bytes,
            fence_epoch=self.fence_epoch,
            fence_counter=self.fence_counter,
            partitions=len(self.partitions),
            required_isolation=bits_of(self.required_isolation),
            compute_mode=mode_of(self.compute_mode),
            max_late_seconds=self.max_late_seconds,
            partition=tuple(p.layout() for p in self.partitions),
            context_bytes=(*(p.context_bytes for p in self.partitions), *unused),
        )


@dataclass(frozen=True)
class Grants:
    """All grants of this node, which replace the previous ones.

    `appliance_seconds` is the clock of the appliance. The launcher accepts tickets signed by any of
    the first four `keys`.
    """

    generation: int
    appliance_seconds: int
    node_id: uuid.UUID
    keys: tuple[layouts.TicketKey, ...]
    grants: tuple[Grant, ...]

    def encode(self) -> bytes:
        keys = self.keys[: layouts.MAX_KEYS]
        head = layouts.Grants(
            generation=self.generation,
            appliance_seconds=self.appliance_seconds,
            node_id=self.node_id.bytes,
            keys=keys,
            key_count=len(keys),
            allocation_count=len(self.grants),
        )
        return head.pack() + b"".join(g.layout().pack() for g in self.grants)


@dataclass(frozen=True)
class SessionReport:
    """A session as the launcher reports it.

    `refused_calls` are unsupported driver functions that the program called. `partition_bytes` is
    the memory held of each partition of the allocation on this node, in the order of the grant.
    """

    session_id: uuid.UUID
    allocation_id: uuid.UUID
    pid: int
    state: str
    opened_seconds: int
    bytes_in: int
    bytes_out: int
    launches: int
    memory_bytes: int
    client_pid: int
    isolation: dict[str, bool]
    program: str
    reason: str
    client_address: str
    refused_calls: tuple[str, ...] = ()
    partition_bytes: tuple[int, ...] = ()
    enforcement: str = "unenforced"
    """The name of an Enforcement: it says how compute shares are enforced."""
    longest_drain_ms: int = 0
    """Longest time of the last minute that its work needed to end after a turn."""
    compute_mode: str = "shared"
    compute_percent: int = 0
    """In force at the arbiter of the first GPU, as the mode is; 0: it has no connection to one."""


@dataclass(frozen=True)
class SessionList:
    """The sessions of this node, the applied generation and the data port."""

    generation: int
    port: int
    sessions: tuple[SessionReport, ...] = field(default=())
    isolation: tuple[str, ...] = ()
    """Layers in force for all sessions; empty: no session server has been started yet."""
    over: tuple[layouts.Holding, ...] | None = None
    """Allocations that hold more memory than their size; None: the launcher does not tell."""
    suspensions: SuspensionList | None = None
    """None: the launcher does not suspend sessions."""
    shares: tuple[layouts.ShareRecord, ...] = ()
    """Of allocations that are given turns on a GPU. Empty also if the launcher does not tell."""


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="replace")


def _name(value: int, otherwise: IntEnum) -> str:
    """Return the name of a value, or of another one if this version does not know it."""
    return type(otherwise)._value2member_map_.get(value, otherwise).name.lower()


def _session_report(record: layouts.SessionRecord) -> SessionReport:
    return SessionReport(
        session_id=uuid.UUID(bytes=record.id),
        allocation_id=uuid.UUID(bytes=record.allocation),
        pid=record.pid,
        state=_name(record.state, SessionState.CLOSED),
        opened_seconds=record.opened_seconds,
        bytes_in=record.bytes_in,
        bytes_out=record.bytes_out,
        launches=record.launches,
        memory_bytes=record.memory_bytes,
        client_pid=record.client_pid,
        isolation={name: bool(record.isolation & bit) for name, bit in ISOLATION_MEASURES.items()},
        program=_text(record.program),
        reason=_text(record.reason),
        client_address=_text(record.client_address),
        refused_calls=tuple(_text(record.refused_calls).split()),
        partition_bytes=record.partition_bytes,
        enforcement=_name(record.enforcement, Enforcement.UNENFORCED),
        longest_drain_ms=record.longest_drain_ms,
        compute_mode=_name(record.compute_mode, ComputeMode.SHARED),
        compute_percent=record.compute_percent,
    )


Record = TypeVar("Record", layouts.Holding, layouts.ShareRecord)


def decode_records(
    body: bytes,
    head: type[layouts.OverList] | type[layouts.ShareList],
    record: type[Record],
    records: str,
) -> tuple[Record, ...]:
    """Return the records of a list in a response. Raises LauncherError for a wrong length."""
    count = head.unpack(body[: head.SIZE]).count if len(body) >= head.SIZE else 0
    if len(body) != head.SIZE + count * record.SIZE:
        raise LauncherError(f"the launcher's list of {records} has a wrong length: {len(body)}")
    return tuple(
        record.unpack(body[at : at + record.SIZE])
        for at in range(head.SIZE, len(body), record.SIZE)
    )


def decode_over(body: bytes) -> tuple[layouts.Holding, ...]:
    return decode_records(body, layouts.OverList, layouts.Holding, "holdings")


def decode_shares(body: bytes) -> tuple[layouts.ShareRecord, ...]:
    return decode_records(body, layouts.ShareList, layouts.ShareRecord, "shares")


def decode_list(body: bytes) -> SessionList:
    """Return the sessions in a response.

    Raises:
        LauncherError: The response has a wrong length.
    """
    head_size, record_size = layouts.SessionList.SIZE, layouts.SessionRecord.SIZE
    if len(body) < head_size:
        raise LauncherError(f"the launcher's response is too short: {len(body)} bytes")
    head = layouts.SessionList.unpack(body[:head_size])
    if len(body) != head_size + head.count * record_size:
        raise LauncherError(
            f"the launcher's response has a wrong length: {len(body)} bytes"
            f" for {head.count} sessions"
        )
    records = (
        layouts.SessionRecord.unpack(body[at : at + record_size])
        for at in range(head_size, len(body), record_size)
    )
    layers = tuple(name for name, bit in ISOLATION_MEASURES.items() if head.isolation & bit)
    return SessionList(
        head.generation, head.port, tuple(_session_report(r) for r in records), layers
    )


class LauncherControl:
    """Requests over the control socket, one connection each.

    Every method may raise LauncherError. Each socket operation blocks for at most `seconds`.
    """

    def __init__(self, path: Path, seconds: float = TIMEOUT_SECONDS) -> None:
        self._path = path
        self._seconds = seconds

    def _request(self, kind: Kind, body: bytes) -> tuple[int, bytes]:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                s.settimeout(self._seconds)
                s.connect(str(self._path))
                s.sendall(layouts.Header(len(body), kind).pack() + body)
                head = layouts.Header.unpack(self._receive(s, layouts.Header.SIZE))
                if head.body_bytes > layouts.MAX_MESSAGE_BYTES:
                    raise LauncherError(
                        f"the launcher's response is too long: {head.body_bytes} bytes"
                    )
                return head.kind, self._receive(s, head.body_bytes)
        except OSError as error:
            raise LauncherError(f"launcher unreachable at {self._path}: {error}") from error

    @staticmethod
    def _receive(s: socket.socket, n: int) -> bytes:
        data = b""
        while len(data) < n:
            part = s.recv(n - len(data))
            if not part:
                raise LauncherClosedError("the launcher closed the connection")
            data += part
        return data

    def apply(self, grants: Grants) -> None:
        """Replace all grants. Sessions without a grant end within a second."""
        kind, _ = self._request(Kind.GRANTS, grants.encode())
        if kind != Kind.OK:
            raise LauncherError("the launcher rejected the grants")

    def kill_session(self, session_id: uuid.UUID, reason: str) -> bool:
        """Kill a session, which ends with this reason. Return whether it ran."""
        request = layouts.KillSession(session_id.bytes, reason.encode()[:MAX_REASON_BYTES])
        kind, _ = self._request(Kind.KILL_SESSION, request.pack())
        return kind == Kind.OK

    def suspend(self, session_id: uuid.UUID, wait_seconds: float) -> None:
        """Suspend a session as soon as its work has ended.

        Returns at once; suspensions() shows what became of it. It is abandoned if work is under way
        for longer than `wait_seconds`.

        Raises:
            SuspensionRefusedError: The session cannot be suspended.
        """
        request = layouts.SuspendSession(session_id.bytes, round(wait_seconds * 1000))
        self._decide(Kind.SUSPEND, request.pack())

    def resume(self, session_id: uuid.UUID) -> None:
        """Resume a suspended session before its program has work.

        Raises:
            SuspensionRefusedError: The session is not suspended.
        """
        self._decide(Kind.RESUME, session_id.bytes)

    def _decide(self, request: Kind, body: bytes) -> None:
        kind, reply = self._request(request, body)
        if kind != Kind.OK:
            raise SuspensionRefusedError(_text(reply))

    def suspensions(self) -> SuspensionList:
        """Return the suspensions, including those that were abandoned."""
        kind, body = self._request(Kind.SUSPENSIONS, b"")
        if kind != Kind.SUSPENSION_LIST:
            raise LauncherError("the launcher did not return its suspensions")
        try:
            return decode_suspensions(body)
        except ValueError as error:
            raise LauncherError(f"malformed list of suspensions: {error}") from error

    def sessions(self) -> SessionList:
        """Return the sessions, including those that ended during the last two minutes."""
        suspensions = self._suspensions()  # first: a session that ends meanwhile is in the list
        kind, body = self._request(Kind.SESSIONS, b"")
        if kind != Kind.SESSION_LIST:
            raise LauncherError("the launcher did not return its sessions")
        return replace(
            decode_list(body), over=self._over(), suspensions=suspensions, shares=self._shares()
        )

    def _over(self) -> tuple[layouts.Holding, ...] | None:
        """Return the holdings. They are read after the generation of the list."""
        try:
            kind, body = self._request(Kind.OVER, b"")
        except LauncherClosedError:  # an older launcher does not know the request
            return None
        return decode_over(body) if kind == Kind.OVER_LIST else None

    def _shares(self) -> tuple[layouts.ShareRecord, ...]:
        try:
            kind, body = self._request(Kind.SHARES, b"")
        except LauncherClosedError:  # an older launcher does not know the request
            return ()
        return decode_shares(body) if kind == Kind.SHARE_LIST else ()

    def _suspensions(self) -> SuspensionList | None:
        try:
            return self.suspensions()
        except LauncherClosedError:  # an older launcher does not know the request
            return None
