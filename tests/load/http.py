"""Minimal HTTP/1.1 client with persistent connections.

A complete client would use as much processor time as the server that is measured.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson


class HttpError(Exception):
    """A response with a status of 400 or above. The message starts with the status."""


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Client:
    def __init__(
        self,
        url: str,
        context: ssl.SSLContext,
        timeout_seconds: float = 30.0,
        source: str | None = None,
    ) -> None:
        """`source` is the local address of the connections."""
        parts = urlsplit(url)
        self.host, self.port, self.context, self.timeout_seconds = (
            str(parts.hostname),
            parts.port,
            context,
            timeout_seconds,
        )
        self.local_address = (source, 0) if source else None
        self.idle: list[Connection] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str],
        query: dict[str, Any] | None = None,
        body: object = None,
    ) -> Any:
        """Return the decoded JSON of the response, None if it is empty.

        Raises:
            HttpError: the status is 400 or above.
            OSError, TimeoutError: the connection failed.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        async with asyncio.timeout(self.timeout_seconds):
            while True:
                reused = bool(self.idle)
                connection = self.idle.pop() if reused else await self._connect()
                try:
                    status, content = await self._exchange(
                        connection, method, target, headers, body
                    )
                    break
                except (asyncio.IncompleteReadError, ConnectionError):
                    connection[1].close()
                    if not reused:  # the server may have closed an idle connection: retry
                        raise
                except BaseException:
                    connection[1].close()
                    raise
        self.idle.append(connection)
        if status >= 400:
            raise HttpError(f"{status}: {content[:200]!r}")
        return orjson.loads(content) if content else None

    async def _connect(self) -> Connection:
        return await asyncio.open_connection(
            self.host, self.port, ssl=self.context, local_addr=self.local_address
        )

    async def _exchange(
        self,
        connection: Connection,
        method: str,
        target: str,
        headers: dict[str, str],
        body: object,
    ) -> tuple[int, bytes]:
        reader, writer = connection
        content = b"" if body is None else orjson.dumps(body)
        lines = [
            f"{method} {target} HTTP/1.1",
            f"Host: {self.host}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
        ]
        writer.write(
            "\r\n".join(
                [*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
            ).encode()
            + content
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        lengths = [line.partition(":")[2] for line in head if line.startswith("content-length:")]
        return int(head[0].split()[1]), await reader.readexactly(int(lengths[0]))
