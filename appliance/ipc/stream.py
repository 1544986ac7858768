"""Streams of protobuf messages over Unix sockets: each message follows its length (4 bytes)."""

from __future__ import annotations

import asyncio
import io
import socket
import struct
from collections.abc import Iterator
from typing import TypeVar

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)
LENGTH = struct.Struct("<I")
BUFFER_BYTES = 1 << 18
SEND_TIMEOUT_SECONDS = 5


def encode(message: Message) -> bytes:
    body = message.SerializeToString()
    return LENGTH.pack(len(body)) + body


async def read_message(reader: asyncio.StreamReader, message_type: type[M]) -> M | None:
    """Return the next message, or None at the end of the stream."""
    try:
        (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        return message_type.FromString(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def messages(connection: socket.socket, message_type: type[M]) -> Iterator[M]:
    """Yield messages until the end of the stream. Blocks."""
    with io.BufferedReader(socket.SocketIO(connection, "r"), BUFFER_BYTES) as stream:
        while True:
            try:
                header = stream.read(LENGTH.size)
                if len(header) < LENGTH.size:
                    return
                (size,) = LENGTH.unpack(header)
                body = stream.read(size)
            except OSError:
                return
            if len(body) < size:
                return
            yield message_type.FromString(body)


def set_send_timeout(connection: socket.socket) -> None:
    """Let `sendall` raise OSError when the peer does not read for SEND_TIMEOUT_SECONDS."""
    timeout = struct.pack("ll", SEND_TIMEOUT_SECONDS, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
