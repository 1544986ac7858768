"""Responses to requests that do not become a WebSocket of the feed, as the document says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvloop

from appliance.api.description.streams import WEBSOCKET
from appliance.http.application import application
from tests.appliance.https_port_in_process import https_port
from tests.appliance.test_protocol_limits import UPGRADE

pytestmark = pytest.mark.django_db
"""The threads of the application may hold connections of earlier tests, which it checks."""

ORIGIN = b"\r\nOrigin: https://a"
REQUESTS = {
    "complete": (UPGRADE, 101),
    "cookie of another application": (
        UPGRADE.replace(b"Host: a", b"Host: a" + ORIGIN + b"\r\nCookie: a/b=1; x=\xff"),
        101,
    ),
    "other origin": (
        UPGRADE.replace(b"Host: a", b"Host: a\r\nOrigin: https://b\r\nCookie: x=1"),
        101,
    ),
    "without key": (UPGRADE.replace(b"Sec-WebSocket-Key", b"X"), 400),
    "short key": (UPGRADE.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"eA=="), 400),
    "other version": (UPGRADE.replace(b": 13", b": 8"), 400),
    "without upgrade": (UPGRADE.replace(b"Upgrade: websocket\r\n", b""), 404),
    "upgrade to something else": (UPGRADE.replace(b": websocket", b": h2c"), 404),
    "method": (UPGRADE.replace(b"GET", b"POST"), 405),
}


async def status_of(folder: Path, request: bytes) -> int:
    async with https_port(folder, application) as port:
        reader, writer = await port.connect()
        writer.write(request)
        line = await asyncio.wait_for(reader.readuntil(b"\r\n"), 20)
        writer.close()
        return int(line.split()[1])


@pytest.mark.parametrize("name", REQUESTS)
def test_response_to_an_upgrade_has_a_documented_status(tmp_path: Path, name: str) -> None:
    request, status = REQUESTS[name]
    assert uvloop.run(status_of(tmp_path, request)) == status


def test_all_statuses_of_an_upgrade_are_documented() -> None:
    statuses = {str(status) for _, status in REQUESTS.values()}
    assert statuses == set(WEBSOCKET["get"]["responses"]) - {"500"}
