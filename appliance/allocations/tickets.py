"""Signs the permission to open a session. The layout is that of remoting/launcher/ticket.h."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LIFE_SECONDS = 300

_BODY = struct.Struct("<4sI8s16s16sqqQQ32s")
_PARTITION = struct.Struct("<16sQII")


@dataclass(frozen=True)
class TicketPartition:
    gpu_uuid: UUID
    memory_bytes: int
    compute_percent: int


@dataclass(frozen=True)
class SigningKey:
    private: Ed25519PrivateKey

    @cached_property
    def public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    @cached_property
    def key_id(self) -> bytes:
        return hashlib.sha256(self.public).digest()[:8]


def signing_key() -> SigningKey:
    """Made at first use; 0600, outside the database."""
    from django.conf import (
        settings,
    )  # here: `./bench gpu` issues tickets on machines without Django

    return signing_key_in(Path(settings.DATA_DIR) / "ticket_key")


@cache
def signing_key_in(path: Path) -> SigningKey:
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(Ed25519PrivateKey.generate().private_bytes_raw())
    return SigningKey(Ed25519PrivateKey.from_private_bytes(path.read_bytes()))


def issue(
    *,
    key: SigningKey,
    allocation_id: UUID,
    node_id: UUID,
    fence: tuple[int, int],
    client_public_key: bytes,
    partitions: Sequence[TicketPartition],
    now_seconds: int,
) -> bytes:
    """`client_public_key` is Ed25519, 32 bytes; the client proves it in its handshake with the node."""
    body = _BODY.pack(
        b"BBT1",
        len(partitions),
        key.key_id,
        allocation_id.bytes,
        node_id.bytes,
        now_seconds,
        now_seconds + LIFE_SECONDS,
        fence[0],
        fence[1],
        client_public_key,
    )
    body += b"".join(
        _PARTITION.pack(p.gpu_uuid.bytes, p.memory_bytes, p.compute_percent, 0) for p in partitions
    )
    return body + key.private.sign(body)
