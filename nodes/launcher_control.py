"""The agent's side of the launcher's Unix socket: grants out, sessions back. Layouts of remoting/control/messages.h."""

from __future__ import annotations

import socket
import struct
import uuid
from dataclasses import dataclass, field
from pathlib import Path

KIND_GRANTS, KIND_SESSIONS, KIND_OK, KIND_SESSION_LIST = 1, 2, 100, 101
MAX_PARTITIONS = 16
MAX_MESSAGE_BYTES = 4 << 20
TIMEOUT_SECONDS = 10.0

_HEADER = struct.Struct("<II")
_PARTITION = struct.Struct("<16sQII")
_ALLOCATION = struct.Struct("<16s16sQQII")
_KEY = struct.Struct("<8s32s")
_GRANTS = struct.Struct("<Qq16s")
_COUNTS = struct.Struct("<II")
_LIST = struct.Struct("<QII")
_SESSION = struct.Struct("<16s16sIIQQQQQII56s104s64s256s16Q")

SESSION_STATES = {1: "opening", 2: "running", 4: "closed"}
ISOLATION_BITS = {"seccomp": 1, "no_new_privs": 2, "resource_limits": 4, "user": 8, "cgroup": 16}


class LauncherError(Exception):
    """The launcher is away, or said no."""


@dataclass(frozen=True)
class Partition:
    gpu_uuid: uuid.UUID
    memory_bytes: int
    compute_percent: int

    def encode(self) -> bytes:
        return _PARTITION.pack(self.gpu_uuid.bytes, self.memory_bytes, self.compute_percent, 0)


@dataclass(frozen=True)
class Grant:
    allocation_id: uuid.UUID
    tenant_id: uuid.UUID
    fence_epoch: int
    fence_counter: int
    partitions: tuple[Partition, ...]

    def encode(self) -> bytes:
        head = _ALLOCATION.pack(
            self.allocation_id.bytes,
            self.tenant_id.bytes,
            self.fence_epoch,
            self.fence_counter,
            len(self.partitions),
            0,
        )
        return head + b"".join(p.encode() for p in self.partitions).ljust(
            MAX_PARTITIONS * _PARTITION.size, b"\0"
        )


@dataclass(frozen=True)
class Grants:
    generation: int
    appliance_seconds: int
    node_id: uuid.UUID
    keys: tuple[tuple[bytes, bytes], ...]
    """(key id of 8 bytes, Ed25519 public key of 32)"""
    grants: tuple[Grant, ...]

    def encode(self) -> bytes:
        keys = b"".join(_KEY.pack(*k) for k in self.keys[:4]).ljust(4 * _KEY.size, b"\0")
        head = _GRANTS.pack(self.generation, self.appliance_seconds, self.node_id.bytes) + keys
        head += _COUNTS.pack(min(len(self.keys), 4), len(self.grants))
        return head + b"".join(g.encode() for g in self.grants)


@dataclass(frozen=True)
class SessionReport:
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
    """Functions of the driver API that the program called and that are not there."""
    partition_bytes: tuple[int, ...] = ()
    """Held of each of the allocation's partitions on this node, in the order of its grant."""


@dataclass(frozen=True)
class SessionList:
    generation: int
    port: int
    sessions: tuple[SessionReport, ...] = field(default=())


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="replace")


def _decode_session(raw: bytes) -> SessionReport:
    f = _SESSION.unpack(raw)
    return SessionReport(
        session_id=uuid.UUID(bytes=f[0]), allocation_id=uuid.UUID(bytes=f[1]), pid=f[2], state=SESSION_STATES.get(f[3], "closed"),
        opened_seconds=f[4], bytes_in=f[5], bytes_out=f[6], launches=f[7], memory_bytes=f[8], client_pid=f[9],
        isolation={name: bool(f[10] & bit) for name, bit in ISOLATION_BITS.items()},
        program=_text(f[11]), reason=_text(f[12]), client_address=_text(f[13]), refused_calls=tuple(_text(f[14]).split()), partition_bytes=f[15:],
    )  # fmt: skip


def decode_list(body: bytes) -> SessionList:
    if len(body) < _LIST.size:
        raise LauncherError("the launcher's answer is too short")
    generation, count, port = _LIST.unpack_from(body)
    if len(body) != _LIST.size + count * _SESSION.size:
        raise LauncherError("the launcher's answer has a wrong length")
    records = (
        body[_LIST.size + i * _SESSION.size : _LIST.size + (i + 1) * _SESSION.size]
        for i in range(count)
    )
    return SessionList(generation, port, tuple(_decode_session(r) for r in records))


class LauncherControl:
    """One request at a time over a connection of its own. Every call may raise LauncherError; blocks 10 s at most."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _request(self, kind: int, body: bytes) -> tuple[int, bytes]:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                s.settimeout(TIMEOUT_SECONDS)
                s.connect(str(self._path))
                s.sendall(_HEADER.pack(len(body), kind) + body)
                length, answer = _HEADER.unpack(self._receive(s, _HEADER.size))
                if length > MAX_MESSAGE_BYTES:
                    raise LauncherError("the launcher's answer is too long")
                return answer, self._receive(s, length)
        except OSError as error:
            raise LauncherError(f"the launcher does not answer on {self._path}: {error}") from error

    @staticmethod
    def _receive(s: socket.socket, n: int) -> bytes:
        data = b""
        while len(data) < n:
            part = s.recv(n - len(data))
            if not part:
                raise LauncherError("the launcher closed the connection")
            data += part
        return data

    def apply(self, grants: Grants) -> None:
        kind, _ = self._request(KIND_GRANTS, grants.encode())
        if kind != KIND_OK:
            raise LauncherError("the launcher refused the grants")

    def sessions(self) -> SessionList:
        kind, body = self._request(KIND_SESSIONS, b"")
        if kind != KIND_SESSION_LIST:
            raise LauncherError("the launcher did not list its sessions")
        return decode_list(body)
