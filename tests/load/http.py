"""HTTP/1.1 with kept connections, and nothing more: a complete client would take as much of the machine as the server that is measured."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson


class HttpError(Exception):
    pass


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Client:
    def __init__(self, url: str, context: ssl.SSLContext, timeout_seconds: float = 30.0) -> None:
        parts = urlsplit(url)
        self.host, self.port, self.context, self.timeout_seconds = (
            str(parts.hostname),
            parts.port,
            context,
            timeout_seconds,
        )
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
        """The answer's JSON. Raises HttpError for a status from 400 on, OSError and TimeoutError."""
        target = f"{path}?{urlencode(query)}" if query else path
        async with asyncio.timeout(self.timeout_seconds):
            while True:
                kept = bool(self.idle)
                connection = (
                    self.idle.pop()
                    if kept
                    else await asyncio.open_connection(self.host, self.port, ssl=self.context)
                )
                try:
                    status, content = await self._ask(connection, method, target, headers, body)
                    break
                except (asyncio.IncompleteReadError, ConnectionError):
                    connection[1].close()
                    if not kept:  # the server closes those that were idle for a while
                        raise
                except BaseException:
                    connection[1].close()
                    raise
        self.idle.append(connection)
        if status >= 400:
            raise HttpError(f"{status}: {content[:200]!r}")
        return orjson.loads(content) if content else None

    async def _ask(
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
