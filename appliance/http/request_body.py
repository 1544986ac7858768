"""Request bodies of ASGI applications."""

from __future__ import annotations

import asyncio
from typing import IO, Any

MAX_BODY_BYTES, MAX_ANONYMOUS_BODY_BYTES = 4 << 20, 64 << 10
BODY_SECONDS = 30.0


class BodyTooLargeError(Exception):
    """The request body exceeds its limit."""


class BodyTimeoutError(Exception):
    """The request body did not arrive within BODY_SECONDS."""


class ClientDisconnectedError(Exception):
    """The client closed the connection before the end of the request body."""


async def read_body(receive: Any, into: IO[bytes], max_bytes: int = MAX_BODY_BYTES) -> None:
    """Write the request body to `into` and rewind it.

    Raises BodyTooLargeError, ClientDisconnectedError or BodyTimeoutError.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            await _read(receive, into, max_bytes)
    except TimeoutError:
        raise BodyTimeoutError from None
    into.seek(0)


async def _read(receive: Any, into: IO[bytes], max_bytes: int) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnectedError
        size += len(message.get("body", b""))
        if size > max_bytes:
            raise BodyTooLargeError
        into.write(message.get("body", b""))
        more = message.get("more_body", False)
