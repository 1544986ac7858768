"""Files below /install/, for machines that have no client yet.

They hold no secret, so anybody may read them (ADR 101). All clients share the bytes in memory. Each
one is sent a chunk when it has read the one before, so 200 clients at once need little memory, and
no thread while they read.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings

from appliance.api.client_connection import connection_of
from appliance.api.errors import ApplianceError
from appliance.db.writer import anonymous_pool, run_in_thread
from appliance.fleet.enrolment import appliance_url
from appliance.installation.authority import pinned_authority
from appliance.installation.packages import packages
from appliance.installation.script import CA_NAME, PEM_NAME, SCRIPT_NAME, installation_script

PREFIX = "/install/"
CHUNK_BYTES = 64 << 10
TRANSFER_SECONDS = 900.0
"""Time that a client may take for one file; the script gives up at the same time."""
BINARY, TEXT = b"application/octet-stream", b"text/plain; charset=utf-8"
HEADERS = [
    (b"cache-control", b"no-cache"),
    (b"content-security-policy", b"default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
]


class File(NamedTuple):
    status: int
    content_type: bytes
    content: bytes


def find(name: str) -> File:
    """Return a file or the response to a name without one. Blocks."""
    try:
        if name == CA_NAME:
            return File(200, BINARY, pinned_authority().der)
        if name == PEM_NAME:
            return File(200, TEXT, (settings.DATA_DIR / "ca.pem").read_bytes())
        loaded = packages.load()
        if name == SCRIPT_NAME:
            text = installation_script(appliance_url(), pinned_authority(), loaded)
            return File(200, TEXT, text.encode())
        if (package := loaded.named(name)) is not None:
            return File(200, BINARY, package.content)
    except ApplianceError as error:
        return File(404, TEXT, f"{error.detail}\n".encode())
    return File(404, TEXT, f"There is no file {PREFIX}{name[:100]}.\n".encode())


async def serve(scope: Any, send: Any) -> None:
    """Respond to a request for a file. Closes the connection of a client that reads too slowly."""
    if scope["method"] not in ("GET", "HEAD"):
        found = File(405, TEXT, b"Only GET and HEAD are possible here.\n")
    else:
        name = scope["path"].removeprefix(PREFIX)
        found = await run_in_thread(partial(find, name), anonymous_pool)
    try:
        async with asyncio.timeout(TRANSFER_SECONDS):
            await send_file(found, send, with_body=scope["method"] != "HEAD")
    except TimeoutError:
        connection_of(scope).abort()


async def send_file(file: File, send: Any, *, with_body: bool) -> None:
    headers = [
        (b"content-type", file.content_type),
        (b"content-length", b"%d" % len(file.content)),
        *HEADERS,
    ]
    await send({"type": "http.response.start", "status": file.status, "headers": headers})
    content = memoryview(file.content if with_body else b"")
    for begin in range(0, len(content), CHUNK_BYTES):
        chunk = bytes(content[begin : begin + CHUNK_BYTES])
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
