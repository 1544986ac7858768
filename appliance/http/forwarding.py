"""Forwarding of unsafe requests from the HTTP server process to the controller."""

from __future__ import annotations

import asyncio
import heapq
import logging
import string
from itertools import count
from typing import Any
from urllib.parse import quote_from_bytes

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from appliance.api.wait import Wait
from appliance.http.handler import Response
from appliance.http.internal_headers import (
    EXECUTION_HEADER,
    INTERNAL_HEADERS,
    SEQUENCE_HEADER,
    WAIT_HEADER,
)

log = logging.getLogger(__name__)

REPLACED_HEADERS = frozenset(
    {b"connection", b"transfer-encoding", b"content-length", b"expect", b"te", b"upgrade"}
    | {b"x-forwarded-for", b"x-forwarded-proto"}
)
"""Request headers that end here or that only this process may set."""
IDLE_SECONDS = 30.0
"""Shorter than the controller's, so that it never closes a connection that is being reused."""
APPLY_TIMEOUT_SECONDS = 5.0


class AppliedSequence:
    """The number of the last change that this process has applied. Event loop only."""

    def __init__(self) -> None:
        self._applied = 0
        self._numbers = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def advance(self, sequence: int) -> None:
        self._applied = max(self._applied, sequence)
        while self._waiting and self._waiting[0][0] <= self._applied:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)

    async def reach(self, sequence: int) -> None:
        """Wait until the change is applied. Raises TimeoutError after APPLY_TIMEOUT_SECONDS."""
        if sequence <= self._applied:
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (sequence, next(self._numbers), future))
        await asyncio.wait_for(future, APPLY_TIMEOUT_SECONDS)


class ControllerClient:
    """HTTP client of the controller with kept connections, as many as the lanes permit.

    Create it in the event loop.
    """

    def __init__(self, socket_path: str, applied: AppliedSequence) -> None:
        self._applied = applied
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(socket_path, limit=0, keepalive_timeout=IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("accept", "accept-encoding", "content-type", "user-agent"),
            auto_decompress=False,
        )

    async def close(self) -> None:
        await self._session.close()

    async def forward(self, scope: dict[str, Any], body: bytes) -> Response | None:
        """Return the controller's response after applying the changes that precede it.

        Return None if the controller cannot be reached.
        """
        try:
            async with self._session.request(
                scope["method"],
                target_of(scope),
                headers=forwarded_headers(scope, len(body)),
                data=body,
                allow_redirects=False,
            ) as found:
                content = await found.read()
        except aiohttp.ClientError as error:
            log.error("http: forwarding %s %s failed: %s", scope["method"], scope["path"], error)
            return None
        return await self._after_changes(found, content)

    async def _after_changes(self, found: aiohttp.ClientResponse, content: bytes) -> Response:
        headers = [(name.lower(), value) for name, value in found.raw_headers]
        internal = {name: value for name, value in headers if name in INTERNAL_HEADERS}
        try:
            await self._applied.reach(int(internal.get(SEQUENCE_HEADER, b"0")))
        except TimeoutError:
            log.error("http: changes of a request were not applied within 5 s")
        wait = internal.get(WAIT_HEADER)
        return Response(
            found.status,
            [header for header in headers if header[0] not in INTERNAL_HEADERS],
            content,
            Wait.from_header(wait.decode()) if wait else None,
        )


def target_of(scope: dict[str, Any]) -> URL:
    """Return the path and query of a request as they were received."""
    target: bytes = scope.get("raw_path") or scope["path"].encode()
    if query := scope.get("query_string"):
        target += b"?" + query
    if not target.isascii():
        target = quote_from_bytes(target, safe=string.punctuation).encode()
    return URL("http://controller" + target.decode("ascii"), encoded=True)


def forwarded_headers(scope: dict[str, Any], body_bytes: int) -> CIMultiDict[str]:
    """Return the request's headers that the controller may see.

    Headers with values that are not ASCII are omitted: no header of the API has such values, and
    their encoding would change on the way.
    """
    headers = CIMultiDict(
        (name.decode("ascii"), value.decode("ascii"))
        for name, value in scope["headers"]
        if name not in REPLACED_HEADERS and value.isascii()
    )
    headers["content-length"] = str(body_bytes)
    headers[EXECUTION_HEADER.decode()] = scope["execution"].value
    headers["x-forwarded-proto"] = scope.get("scheme", "https")
    if client := scope.get("client"):
        headers["x-forwarded-for"] = str(client[0])
    headers.setdefault("host", "localhost")
    return headers
