"""What the appliance's processes say to each other, over pairs of sockets. Both ends are ours and of one build."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import io
import os
import secrets
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
    HEARD = 6
    """Body: ids of nodes. Not answered."""
    NEWS = 7
    """To the web's process. Body: `parts`, one for each node that was heard, of its Samples or of nothing. Answer: a byte each, 1 when it was kept."""
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


def local_socket() -> socket.socket:
    """One that processes of ours can connect to: of a name that nobody else knows, and in no folder, whose path might be too long."""
    made = socket.socket(socket.AF_UNIX)
    made.bind(b"\0busbar-" + secrets.token_hex(16).encode())
    made.listen()
    return made


def accepted(listening: socket.socket) -> socket.socket:
    """The next connection of a process of ours. Blocks."""
    while True:
        connection, _ = listening.accept()
        _, user, _ = struct.unpack(
            "3i",
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")),
        )
        if user == os.getuid():
            return connection
        connection.close()


def hang_up(connection: socket.socket) -> None:
    """From any thread: whoever reads comes to the end."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


SPARING = {"MALLOC_ARENA_MAX": "2"}
"""Of memory: an arena for each of many threads keeps what none of them needs any more."""


def start(
    arguments: Callable[[int], Sequence[str]], inherited: Sequence[int] = ()
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process of ours, whose arguments are given its end of the pipe, and our end. Whatever folder the appliance was started from."""
    ours, theirs = socket.socketpair()
    path = os.pathsep.join(
        filter(None, [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH")])
    )
    with theirs:
        process = subprocess.Popen(
            arguments(theirs.fileno()),
            pass_fds=[theirs.fileno(), *inherited],
            env=os.environ | {"PYTHONPATH": path, **SPARING},
        )
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
