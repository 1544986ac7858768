"""A directory that never answers delays only the people in it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.appliance.appliance_process import PASSWORD, STRANGER, ApplianceProcess, started
from tests.load.http import Client, HttpError

PEOPLE = 30
DIRECTORY_SECONDS = 6.0


@pytest.fixture(scope="module")
def silent_port() -> Iterator[int]:
    """Port that accepts connections and never sends a byte."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        accepted: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    accepted.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        for connection in accepted:
            connection.close()


@pytest.fixture(scope="module")
def appliance(
    silent_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApplianceProcess]:
    with started(
        tmp_path_factory.mktemp("appliance"),
        BUSBAR_LDAP_URL=f"ldaps://127.0.0.1:{silent_port}",
        BUSBAR_LDAP_BASE="dc=example,dc=org",
        BUSBAR_LDAP_SECONDS=str(DIRECTORY_SECONDS),
    ) as running:
        one_time = (running.data / "initial-admin-password").read_text().strip()
        body = {"username": "admin", "password": one_time, "new_password": PASSWORD}
        asyncio.run(running.client().request("POST", "/api/v1/login", body=body, headers={}))
        yield running


async def log_in(client: Client, username: str) -> int:
    body = {"username": username, "password": PASSWORD}
    try:
        await client.request("POST", "/api/v1/login", body=body, headers={})
    except HttpError as error:
        return int(str(error)[:3])
    return 200


def test_local_logins_do_not_wait_for_a_silent_directory(appliance: ApplianceProcess) -> None:
    async def run() -> tuple[list[float], Counter[int]]:
        strangers = [appliance.client(f"127.0.0.{n}", 60) for n in range(10, 10 + PEOPLE)]
        waiting = [
            asyncio.create_task(log_in(client, f"person{n}")) for n, client in enumerate(strangers)
        ]
        await asyncio.sleep(1)
        latencies = []
        for _ in range(3):
            begun = time.monotonic()
            assert await log_in(appliance.client(), "admin") == 200
            latencies.append(time.monotonic() - begun)
        begun = time.monotonic()
        assert await log_in(appliance.client(STRANGER), "admin") == 200
        latencies.append(time.monotonic() - begun)
        assert not any(task.done() for task in waiting), "the directory has answered"
        return latencies, Counter(await asyncio.gather(*waiting))

    latencies, statuses = asyncio.run(run())
    assert max(latencies) < 3, latencies
    assert set(statuses) <= {429, 503} and statuses[503] >= 4, statuses
