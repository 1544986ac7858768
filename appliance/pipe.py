"""What the appliance's processes say to each other, over pairs of sockets. Both ends are ours and of one build."""

from __future__ import annotations

import asyncio
import contextlib
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
    # The web's process asks.
    CHANGE = 32
    """Body: the request, pickled. Answer: an Answer, pickled."""
    DECIDE = 37
    """As CHANGE, of a view that is `quick`."""
    DECIDES = 33
    """Answer: what the deciding process says of itself, pickled."""
    # It is told, and asked.
    TOLD = 34
    """Body: calls to make, pickled."""
    ASKED = 35
    """Body: a call, pickled. Answer: what it returned, pickled."""
    STOP = 36
    """Answers what is under way, writes down what it has, and ends."""


SEND_SECONDS = 5
BUFFER_BYTES = 1 << 18
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
    try:
        header = stream.read(HEADER.size)
        if len(header) < HEADER.size:
            return None
        size, kind, call, node = HEADER.unpack(header)
        body = stream.read(size)
    except OSError:
        return None
    return Frame(Kind(kind), call, node, body) if len(body) == size else None


async def read_async(stream: asyncio.StreamReader) -> Frame | None:
    """As read()."""
    try:
        size, kind, call, node = HEADER.unpack(await stream.readexactly(HEADER.size))
        return Frame(Kind(kind), call, node, await stream.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def frames(connection: socket.socket) -> Iterator[Frame]:
    """Until it ends. Blocks."""
    with io.BufferedReader(socket.SocketIO(connection, "r"), BUFFER_BYTES) as stream:
        while (frame := read(stream)) is not None:
            yield frame


def impatient(connection: socket.socket) -> None:
    """From now on sending raises OSError when the other end does not read for seconds."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))


def hang_up(connection: socket.socket) -> None:
    """From any thread: whoever reads comes to the end."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def start(arguments: Callable[..., Sequence[str]], pipes: int = 1, inherited: Sequence[int] = ()) -> tuple[subprocess.Popen[bytes], list[socket.socket]]:
    """A process of ours, whose arguments are given its ends of so many pipes, and our ends. Whatever folder the appliance was started from."""
    ours, theirs = zip(*(socket.socketpair() for _ in range(pipes)), strict=True)
    path = os.pathsep.join(filter(None, [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH")]))
    numbers = [end.fileno() for end in theirs]
    try:
        process = subprocess.Popen(arguments(*numbers), pass_fds=[*numbers, *inherited], env=os.environ | {"PYTHONPATH": path})
    finally:
        for end in theirs:
            end.close()
    return process, list(ours)


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
