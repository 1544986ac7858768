"""Many clients that install at once, and clients that do not read what they asked for."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.installation import serving
from remoting.cli.api import Api, Context
from tests.appliance.appliance_process import ApplianceProcess, started
from tests.appliance.https_port_in_process import Port, https_port

pytestmark = pytest.mark.long

CLIENTS = 200
FILES = ("ca.der", "client.sh", "busbar-client.tar.gz")
MOST_MEMORY_BYTES = 192 << 20
"""For 200 clients that read nothing: buffers of the connections, and not copies of a package."""


@pytest.fixture(scope="module")
def appliance(
    packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApplianceProcess]:
    with started(tmp_path_factory.mktemp("load"), BUSBAR_CLIENT_PACKAGES=str(packages)) as found:
        yield found


def http_server_of(appliance: ApplianceProcess) -> Path:
    """Return the /proc folder of the HTTP server process."""
    for child in Path(f"/proc/{appliance.process.pid}/task").glob("*/children"):
        for pid in child.read_text().split():
            if b"appliance.http.server" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return Path(f"/proc/{pid}")
    raise AssertionError("there is no HTTP server process")


def rss_bytes(process: Path) -> int:
    return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def fetch(appliance: ApplianceProcess, context: ssl.SSLContext, name: str) -> bytes:
    """Return the content of a file over a connection of its own, as the script fetches it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", appliance.https_port, ssl=context)
    writer.write(f"GET /install/{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(re.findall(rb"content-length: (\d+)", head)[0])
    content = await reader.readexactly(length)
    writer.close()
    return content


async def install(appliance: ApplianceProcess, context: ssl.SSLContext) -> str:
    """Fetch all files, and return the hash of the last one."""
    content = b""
    for name in FILES:
        content = await fetch(appliance, context, name)
    return hashlib.sha256(content).hexdigest()


async def time_requests(api: Api, done: asyncio.Event) -> list[float]:
    """Return the seconds of requests of a user, one after the other."""
    taken = []
    while not done.is_set():
        begun = time.monotonic()
        await asyncio.to_thread(api.request, "GET", "me")
        taken.append(time.monotonic() - begun)
        await asyncio.sleep(0.05)
    return taken


async def install_at_once(appliance: ApplianceProcess, api: Api) -> tuple[set[str], list[float]]:
    context, done = appliance.context, asyncio.Event()
    timing = asyncio.create_task(time_requests(api, done))
    hashes = await asyncio.gather(*(install(appliance, context) for _ in range(CLIENTS)))
    done.set()
    return set(hashes), await timing


def test_two_hundred_clients_of_one_address_install_at_once(
    appliance: ApplianceProcess, packages: Path
) -> None:
    token = appliance.manage("create_token", "--role", "user", "--hours", "1")
    api = Api(Context(appliance.url, token, (appliance.data / "ca.pem").read_text()))
    api.request("GET", "me")
    before, begun = rss_bytes(http_server_of(appliance)), time.monotonic()
    hashes, taken = asyncio.run(install_at_once(appliance, api))
    grown = rss_bytes(http_server_of(appliance)) - before
    content = (packages / "busbar-client.tar.gz").read_bytes()
    assert hashes == {hashlib.sha256(content).hexdigest()}
    print(
        f"{CLIENTS} clients in {time.monotonic() - begun:.1f} s, {grown >> 20} MiB, "
        f"requests of others: {len(taken)}, at most {max(taken) * 1000:.0f} ms"
    )
    assert grown < MOST_MEMORY_BYTES


def test_clients_that_do_not_read_need_little_memory(appliance: ApplianceProcess) -> None:
    appliance.get("/install/client.sh")
    before = rss_bytes(http_server_of(appliance))
    silent = []
    for _ in range(CLIENTS):
        client = appliance.context.wrap_socket(
            socket.create_connection(("127.0.0.1", appliance.https_port)),
            server_hostname="127.0.0.1",
        )
        client.sendall(b"GET /install/busbar-client.tar.gz HTTP/1.1\r\nHost: a\r\n\r\n")
        silent.append(client)
    try:
        for client in silent:
            assert client.recv(1) == b"H"  # the server sends
        assert rss_bytes(http_server_of(appliance)) - before < MOST_MEMORY_BYTES
        assert appliance.get("/install/ca.der")
    finally:
        for client in silent:
            client.close()


async def send_and_stall(port: Port) -> bytes:
    """Ask for a large file, read its begin, and return what comes after its deadline."""
    reader, writer = await port.connect()
    writer.write(b"GET /install/large HTTP/1.1\r\nHost: a\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(1)  # reads begin after the deadline of the server
    return await reader.read()


def test_client_that_does_not_read_loses_its_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    size = 64 << 20  # more than the buffers of both ends
    large = serving.File(200, serving.BINARY, bytes(size))
    monkeypatch.setattr(serving, "find", lambda name: large)
    monkeypatch.setattr(serving, "TRANSFER_SECONDS", 0.3)

    async def stall() -> bytes:
        async with https_port(tmp_path) as port:
            return await send_and_stall(port)

    try:
        rest = asyncio.run(stall())
    except ConnectionError:
        return
    assert len(rest) < size
