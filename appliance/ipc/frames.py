"""Frames between the processes of the appliance.

A frame is a header with kind, call and node, followed by a body.

Both ends are processes of the same build.
"""

from __future__ import annotations

import asyncio
import enum
import io
import os
import secrets
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from google.protobuf.message import Message


class Kind(enum.IntEnum):
    # Requests of the gateway, each with a reply.
    ADMIT = 1
    """Body: the certificate's serial. Reply: the node's id."""
    INVENTORY = 2
    """Body: the AgentMessage. Reply: ROWS."""
    REPORT = 3
    """Body: POSITION and the Report. Reply: PROGRESS."""
    LOCK = 5
    """Two agents have the identity of the node. Reply: empty."""
    HEARTBEATS = 6
    """Body: ids of nodes. Without a reply."""
    MESSAGE_REFUSED = 8
    """The node sent an invalid message. Body: the reason. Without a reply."""
    SAMPLES = 7
    """To the HTTP server. Body: for each node with a heartbeat its Samples or an empty message, see
    `pack_by_node`. Reply: one byte per node, 1 if the samples were stored."""
    # Messages to the gateway.
    REPLY = 16
    ERROR = 17
    """Body: an error's code, a space and its detail."""
    READY = 18
    """The gateway accepts connections. Sent by the gateway."""
    DESIRED_STATE = 19
    """The DesiredState of a node. The gateway sends it without a body when a stream of the node
    begins; the controller then sends the state, and again when its generation has changed."""
    CERTIFICATES_ENDED = 20
    """Body: serials of expired or revoked certificates, separated by spaces."""
    # Between the controller and the HTTP server, in both directions.
    HTTP_SERVER = 32
    """Body: a ControllerMessage or an HttpServerMessage. Their connection has no other kind."""


BUFFER_BYTES = 1 << 18
HEADER = struct.Struct("<IBI16s")
ROWS = struct.Struct("<I")
"""Number of written rows."""
POSITION = struct.Struct("<I")
"""Number of sessions of a report that earlier requests have applied."""
PROGRESS = struct.Struct("<III?")
"""Numbers of written rows and of compared sessions, the new position, and whether more of the
report must be applied by another request."""
NO_NODE = bytes(16)


class Frame(NamedTuple):
    kind: Kind
    call: int = 0
    """Number of a request, repeated in its reply."""
    node: bytes = NO_NODE
    body: bytes = b""

    def encode(self) -> bytes:
        return HEADER.pack(len(self.body), self.kind, self.call, self.node) + self.body


def encode_message(message: Message) -> bytes:
    return Frame(Kind.HTTP_SERVER, body=message.SerializeToString()).encode()


def read_frame(stream: io.BufferedIOBase | io.BufferedReader[Any]) -> Frame | None:
    """Return the next frame, or None at the end of the stream. Blocks."""
    try:
        header = stream.read(HEADER.size)
        if len(header) < HEADER.size:
            return None
        size, kind, call, node = HEADER.unpack(header)
        body = stream.read(size)
    except OSError:
        return None
    return Frame(Kind(kind), call, node, body) if len(body) == size else None


async def read_frame_async(stream: asyncio.StreamReader) -> Frame | None:
    """Return the next frame, or None at the end of the stream."""
    try:
        size, kind, call, node = HEADER.unpack(await stream.readexactly(HEADER.size))
        return Frame(Kind(kind), call, node, await stream.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def read_frames(connection: socket.socket) -> Iterator[Frame]:
    """Yield frames until the end of the stream. Blocks."""
    with io.BufferedReader(socket.SocketIO(connection, "r"), BUFFER_BYTES) as stream:
        while (frame := read_frame(stream)) is not None:
            yield frame


def listen_on_random_name() -> socket.socket:
    """Return a listening Unix socket with a random abstract name, without a file."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(b"\0busbar-" + secrets.token_hex(16).encode())
    listening.listen()
    return listening


def accept_own_user(listening: socket.socket) -> socket.socket:
    """Return the next connection of a process of the same user; close others. Blocks."""
    while True:
        connection, _ = listening.accept()
        _, user, _ = struct.unpack(
            "3i",
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")),
        )
        if user == os.getuid():
            return connection
        connection.close()


PART = struct.Struct("<16sI")


def pack_by_node(parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Pack node ids with one message each."""
    return b"".join(PART.pack(node, len(body)) + body for node, body in parts)


def unpack_by_node(packed: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(packed):
        node, size = PART.unpack_from(packed, at)
        at += PART.size + size
        yield node, packed[at - size : at]


def split_ids(packed: bytes) -> Iterator[bytes]:
    return (packed[at : at + 16] for at in range(0, len(packed), 16))
