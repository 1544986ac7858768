"""The client's TCP connection belongs to the network of the machine, not to that of the cage."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from tests.remoting.attacker import ENDED, RIGHTS, Attacker
from tests.remoting.node import NULL_DRIVER, LocalNode

CONNECT_SECONDS = 0.5


@pytest.fixture
def service() -> Iterator[socket.socket]:
    """A service of the machine that sessions must not reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture(params=RIGHTS)
def attacker(request: pytest.FixtureRequest, compiled: Callable[[str], Path]) -> Iterator[Attacker]:
    node = LocalNode(NULL_DRIVER, **RIGHTS[request.param])
    yield Attacker(node, compiled("attack_client"))
    node.stop()


@pytest.fixture
def exposed(compiled: Callable[[str], Path]) -> Iterator[Attacker]:
    """Planted: session servers in a cage, but without a filter of system calls."""
    node = LocalNode(NULL_DRIVER, BUSBAR_FAILPOINT_NO_SANDBOX="1")
    yield Attacker(node, compiled("attack_client"))
    node.stop()


def attack(service: socket.socket) -> str:
    return f"reconnect_client {service.getsockname()[1]}"


def is_reached(service: socket.socket, seconds: float) -> bool:
    return service in select.select([service], [], [], seconds)[0]


def test_session_cannot_reuse_the_connection_of_its_client(
    attacker: Attacker, service: socket.socket
) -> None:
    """It can report the result, so it has not lost its client by trying."""
    result = attacker.results(attack(service))[0]
    assert result not in (0, ENDED) and not is_reached(service, 0)


def test_connection_is_reused_without_the_filter(exposed: Attacker, service: socket.socket) -> None:
    """Neither the network namespace of the cage nor Landlock prevents it.

    A session that has lost its client ends, sometimes before the new connection.
    """

    def reaches() -> bool:
        exposed.results(attack(service))
        return is_reached(service, CONNECT_SECONDS)

    wait_for("the connection", reaches, exposed.node.folder / "launcher.log")
