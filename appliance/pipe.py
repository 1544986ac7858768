"""What the appliance's processes say to each other, over pairs of sockets. Both ends are ours and of one build."""

from __future__ import annotations

import asyncio
import enum
import io
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Kind(enum.IntEnum):
    # The gateway asks; each is answered.
    ADMIT = 1
    """Body: method, a space, the certificate's serial. Answer: the node's id, or nothing."""
    INVENTORY = 2
    """Body: the AgentMessage."""
    REPORT = 3
    """Body: the Report."""
    STATE = 4
    """Answer: the DesiredState."""
    RENEW = 5
    """Body: the RenewRequest. Answer: the RenewReply."""
    NEWS = 6
    """Body: `parts`, one for each node that was heard, of its Samples or of nothing. Answer: a byte each, 1 when it was kept."""
    # The appliance says.
    ANSWER = 16
    REFUSED = 17
    """Body: an error's code, a space and its sentence."""
    READY = 18
    """The other process is there."""
    LOOK = 19
    """Body: ids of nodes whose desired state may have changed."""
    ENDED = 20
    """Body: serials of certificates that are good no longer, with spaces between."""
    # The appliance and its lister.
    GET = 32
    """Body: the request, pickled. Answer: status, headers and body, pickled."""
    HEARD = 33
    """Body: which nodes were heard, and readings of GPUs, pickled."""
    FORGET = 34
    """Users, tokens or roles changed: what is remembered of them is read again."""


HEADER = struct.Struct("<IBI16s")
NOBODY = bytes(16)


@dataclass(frozen=True, slots=True)
class Frame:
    kind: Kind
    call: int = 0
    """Which question an answer is for."""
    node: bytes = NOBODY
    body: bytes = b""

    def packed(self) -> bytes:
        return HEADER.pack(len(self.body), self.kind, self.call, self.node) + self.body


def read(stream: io.BufferedIOBase | io.BufferedReader[Any]) -> Frame | None:
    """Blocks; None at the end."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    size, kind, call, node = HEADER.unpack(header)
    body = stream.read(size)
    return Frame(Kind(kind), call, node, body) if len(body) == size else None


async def read_async(stream: asyncio.StreamReader) -> Frame | None:
    """As read()."""
    try:
        size, kind, call, node = HEADER.unpack(await stream.readexactly(HEADER.size))
        return Frame(Kind(kind), call, node, await stream.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def start(arguments: Callable[[int], Sequence[str]]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process of ours, whose arguments are given its end of the pipe, and our end. Whatever folder the appliance was started from."""
    ours, theirs = socket.socketpair()
    path = os.pathsep.join(filter(None, [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH")]))
    with theirs:
        process = subprocess.Popen(arguments(theirs.fileno()), pass_fds=[theirs.fileno()], env=os.environ | {"PYTHONPATH": path})
    return process, ours


PART = struct.Struct("<16sI")


def packed_parts(parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Of nodes and what each says."""
    return b"".join(PART.pack(node, len(body)) + body for node, body in parts)


def parts(packed: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(packed):
        node, size = PART.unpack_from(packed, at)
        at += PART.size + size
        yield node, packed[at - size : at]


def ids(packed: bytes) -> Iterator[bytes]:
    return (packed[at : at + 16] for at in range(0, len(packed), 16))
