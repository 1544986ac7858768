"""A path that names another server gets no request, and thus no token."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbar_client import ClientError, Connection
from remoting.cli.api import Api
from remoting.cli.errors import EXIT_USAGE
from tests.unit.test_every_command import certificate, dead_port
from tests.unit.test_hostile_values import status_of

FOREIGN = [
    "http://{host}/x",
    "HTTP://{host}/x",
    "https:{host}/x",
    " http://{host}/x",
    "//{host}/x",
    "/\\{host}/x",
    "\\\\{host}\\x",
]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A server that accepts connections and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.setblocking(False)
        yield made


def host_of(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def assert_nothing_came(server: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        server.accept()


@pytest.mark.parametrize("path", FOREIGN)
def test_connection_refuses_a_path_of_another_server(path: str, server: socket.socket) -> None:
    foreign = path.format(host=host_of(server))
    url = f"https://{host_of(server)}"
    with Connection(url, "secret", certificate().decode(), timeout_seconds=0.2) as connection:
        with pytest.raises(ClientError, match="path of the appliance"):
            connection.send("GET", foreign)
        with pytest.raises(ClientError, match="path of the appliance"):
            next(connection.events(foreign, {}))
    assert_nothing_came(server)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("path", [*FOREIGN, "/api/v1/http://{host}/x", "/api/v1///{host}/x"])
def test_command_refuses_a_path_of_another_server(
    path: str,
    traced: bool,
    server: socket.socket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in dead_port(tmp_path).items():
        monkeypatch.setenv(name, value)
    printed: list[str] = []
    monkeypatch.setattr(Api, "trace", printed.append if traced else None)
    assert status_of(["api", "GET", path.format(host=host_of(server))]) == EXIT_USAGE
    assert "is no path of the appliance" in capsys.readouterr().err and printed == []
    assert_nothing_came(server)
