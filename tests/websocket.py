"""WebSockets of tests, which block like those of websockets.sync.

The client of websockets.sync reads and writes in two threads. OpenSSL does not permit that for one
connection, and Python guards against it from version 3.13 on: of 200 handshakes, one was never
sent. Here one thread serves all sockets of a process.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Coroutine, Mapping
from functools import cache
from typing import Any, Self, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from tests.remoting.node import EVENT_SECONDS

Result = TypeVar("Result")


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="websockets", daemon=True).start()
    return loop


def result_of(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run_coroutine_threadsafe(work, event_loop()).result()


class WebSocket:
    """An open WebSocket. The constructor raises InvalidStatus if the server refuses it."""

    def __init__(
        self,
        url: str,
        context: ssl.SSLContext,
        *,
        headers: Mapping[str, str] | None = None,
        origin: str | None = None,
    ) -> None:
        async def opened() -> ClientConnection:
            return await connect(
                url,
                ssl=context,
                additional_headers=headers,
                origin=Origin(origin) if origin else None,
                compression=None,
                max_size=16 << 20,
                open_timeout=EVENT_SECONDS,
            )

        self._connection = result_of(opened())

    def send(self, message: str | bytes) -> None:
        result_of(self._connection.send(message))

    def recv(self, timeout_seconds: float) -> str | bytes:
        """Return the next message.

        Raises TimeoutError if none arrives in time, and ConnectionClosed if the socket is closed.
        """
        return result_of(asyncio.wait_for(self._connection.recv(), timeout_seconds))

    def close(self) -> None:
        result_of(self._connection.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
