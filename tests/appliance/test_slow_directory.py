"""A directory that never answers delays only the people in it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.appliance.appliance_process import PASSWORD, STRANGER, ApplianceProcess, started
from tests.appliance.https_port_in_process import wait_until
from tests.load.http import Client, HttpError

PEOPLE = 30
DIRECTORY_SECONDS = 60.0
AT_ONCE = 4
"""Least number of people for whom the appliance asks the directory at once."""


class SilentDirectory:
    """Accepts connections and never sends a byte."""

    def __init__(self, listening: socket.socket) -> None:
        self.port = listening.getsockname()[1]
        self.accepted: list[socket.socket] = []
        self.has_ended = False
        self._listening = listening
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.accepted.append(self._listening.accept()[0])
                if self.has_ended:
                    self.accepted[-1].close()

    def end(self) -> None:
        """Close all connections, also those that follow."""
        self.has_ended = True
        for connection in self.accepted:
            connection.close()


@pytest.fixture(scope="module")
def directory() -> Iterator[SilentDirectory]:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield SilentDirectory(server)


@pytest.fixture(scope="module")
def appliance(
    directory: SilentDirectory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApplianceProcess]:
    with started(
        tmp_path_factory.mktemp("appliance"),
        BUSBAR_LDAP_URL=f"ldaps://127.0.0.1:{directory.port}",
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


def test_local_logins_do_not_wait_for_a_silent_directory(
    appliance: ApplianceProcess, directory: SilentDirectory
) -> None:
    async def run() -> Counter[int]:
        strangers = [appliance.client(f"127.0.0.{n}", 120) for n in range(10, 10 + PEOPLE)]
        waiting = [
            asyncio.create_task(log_in(client, f"person{n}")) for n, client in enumerate(strangers)
        ]
        await wait_until(lambda: len(directory.accepted) >= AT_ONCE)
        for source in ("127.0.0.1", "127.0.0.1", "127.0.0.1", STRANGER):
            assert await log_in(appliance.client(source), "admin") == 200
        answered = [task.result() for task in waiting if task.done()]
        assert 503 not in answered, "the directory has answered"
        directory.end()
        return Counter(await asyncio.gather(*waiting))

    statuses = asyncio.run(run())
    assert set(statuses) <= {429, 503} and statuses[503] >= AT_ONCE, statuses
