"""Seeds of the fuzz targets `connections`, `session_replies` and `bulk`."""

from __future__ import annotations

import struct

# Flags of the target `connections`: remoting/fuzz/connections.cc.
PREAMBLE, BULK, SIGN = 1, 2, 4
OPEN_PURPOSE, BULK_PURPOSE = 1, 2
MAX_TICKET_BYTES = 4096


def ticket(partitions: int = 1, client_key: bytes = bytes(32)) -> bytes:
    body = b"BBT1" + struct.pack("<IB", partitions, 1) + bytes(7 + 64) + client_key
    return body + bytes(32 * partitions) + bytes(64)


def preamble(purpose: int, size: int, magic: bytes = b"BUSBAR1\n") -> bytes:
    return magic + struct.pack("<II", purpose, size)


def connection_seeds() -> dict[str, bytes]:
    """Return connections whose first bytes arrive at once and in two parts."""
    request = bytes(16) + struct.pack("<Q", 1) + bytes(32)
    connections = {
        "signed ticket": (PREAMBLE | SIGN, ticket()),
        "signed ticket with a key": (PREAMBLE | SIGN, ticket(client_key=b"\7" * 32)),
        "ticket of another key": (PREAMBLE, ticket()),
        "largest ticket": (PREAMBLE | SIGN, bytes(MAX_TICKET_BYTES)),
        "ticket over the limit": (PREAMBLE | SIGN, bytes(MAX_TICKET_BYTES + 1)),
        "no ticket": (PREAMBLE, b""),
        "proof": (PREAMBLE | BULK | SIGN, request),
        "wrong proof": (PREAMBLE | BULK, request),
        "short request": (PREAMBLE | BULK, request[:-1]),
        "long request": (PREAMBLE | BULK, request + b"x"),
        "raw ticket": (0, preamble(OPEN_PURPOSE, len(ticket())) + ticket()),
        "bytes behind": (0, preamble(OPEN_PURPOSE, 1) + ticket()),
        "other magic": (0, preamble(OPEN_PURPOSE, 4, b"GET / HT") + bytes(4)),
        "other purpose": (0, preamble(9, 4) + bytes(4)),
        "cut preamble": (0, preamble(OPEN_PURPOSE, 4)[:9]),
        "cut ticket": (0, preamble(OPEN_PURPOSE, 400) + ticket()),
        "most bytes": (0, preamble(OPEN_PURPOSE, (1 << 32) - 1) + ticket()),
        "cut request": (0, preamble(BULK_PURPOSE, len(request)) + request[:-1]),
    }
    return {
        f"{name} {first}": bytes([flags, first]) + content
        for name, (flags, content) in connections.items()
        for first in (0, 5, 16, 30, 255)
    }


# Replies of the target `session_replies`: remoting/fuzz/session_replies.cc.
GONE = 255
OK, REFUSED = 100, 102
DESCRIPTION_BYTES = 32 << 10


def reply_seeds() -> dict[str, bytes]:
    def message(body: bytes, kind: int = OK, claimed: int | None = None) -> bytes:
        return struct.pack("<II", len(body) if claimed is None else claimed, kind) + body

    def ready(size: int, text: bytes) -> bytes:
        return struct.pack("<II", 1, size) + text

    starts = {
        "ready": message(ready(4, b"text")),
        "no description": message(ready(0, b"")),
        "longer description": message(ready(5, b"text")),
        "shorter description": message(ready(3, b"text")),
        "description over the limit": message(ready(DESCRIPTION_BYTES + 1, b"text")),
        "largest number": message(ready((1 << 32) - 8, b"")),
        "refused": message(ready(4, b"text"), REFUSED),
        "empty": message(b""),
        "cut": message(ready(4, b"text"))[:-1],
        "body over the limit": message(b"", claimed=1 << 31),
    }
    return {
        f"{name} {descriptors}": bytes([descriptors]) + data
        for name, data in starts.items()
        for descriptors in (0, 1, 2, GONE)
    }


# Receivers of the target `bulk`, and what its client expects: remoting/fuzz/bulk.cc.
SERVER, CLIENT = 0, 1
TRANSFER, TRANSFER_BYTES = 2, 1024
MAX_CHUNK_BYTES = 4 << 20


def bulk_seeds() -> dict[str, bytes]:
    def chunk(
        offset: int, size: int, claimed: int | None = None, transfer: int = TRANSFER
    ) -> bytes:
        head = struct.pack("<QQQ", transfer, offset, size if claimed is None else claimed)
        return head + bytes(i % 251 + 1 for i in range(size))

    connections = {
        "one chunk": chunk(0, 64),
        "two chunks": chunk(0, 64) + chunk(64, 64),
        "whole transfer": chunk(0, TRANSFER_BYTES) + chunk(0, 1),
        "two transfers": chunk(0, 64) + chunk(0, 64, transfer=3) + chunk(64, 8),
        "gap": chunk(0, 64) + chunk(128, 64),
        "repeated": chunk(0, 64) + chunk(0, 64),
        "later offset": chunk(512, 64),
        "last byte": chunk(TRANSFER_BYTES - 1, 1) + chunk(TRANSFER_BYTES, 1),
        "bytes beyond the transfer": chunk(0, TRANSFER_BYTES + 1),
        "offset beyond the transfer": chunk(1 << 40, 8),
        "largest offset": chunk((1 << 64) - 4, 8),
        "no bytes": chunk(0, 0) + chunk(0, 8),
        "cut chunk": chunk(0, 64, claimed=65),
        "chunk of the largest size": chunk(0, 64, claimed=MAX_CHUNK_BYTES),
        "chunk over the limit": chunk(0, 64, claimed=MAX_CHUNK_BYTES + 1),
        "chunk of 2^64 bytes": chunk(0, 64, claimed=(1 << 64) - 1),
        "cut header": chunk(0, 0)[:-1],
        "nothing": b"",
    }
    return {
        f"{name} {receiver}": bytes([receiver]) + data
        for name, data in connections.items()
        for receiver in (SERVER, CLIENT)
    }
