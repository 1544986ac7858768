"""Ports of `./run`: a data folder keeps them, because logins and nodes know them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.ports import Ports, choose_ports
from deploy.supervisor import ROOT
from tests.ports import port

ADDRESS = "127.0.0.1"
FIRST = 40


@pytest.fixture
def ports() -> Ports:
    return Ports(port(FIRST), port(FIRST), port(FIRST + 1))


@pytest.fixture
def taken(ports: Ports) -> Iterator[int]:
    """The HTTPS port, which this process holds."""
    with socket.create_server((ADDRESS, ports.https)):
        yield ports.https


def test_first_start_takes_another_port_and_says_so(
    tmp_path: Path, ports: Ports, taken: int, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = choose_ports(tmp_path, taken, ADDRESS)
    assert (chosen.https, chosen.fleet) == (taken + 1, taken + 2)
    said = capsys.readouterr().err
    assert f"Port {taken} is held by pid {os.getpid()} (" in said and str(taken + 1) in said


def test_later_start_uses_the_ports_of_the_first(
    tmp_path: Path, ports: Ports, taken: int, capsys: pytest.CaptureFixture[str]
) -> None:
    first = choose_ports(tmp_path, taken, ADDRESS)
    first.record(tmp_path)
    capsys.readouterr()
    for wanted in (None, first.https):
        assert choose_ports(tmp_path, wanted, ADDRESS) == first
    assert capsys.readouterr().err == ""
    assert choose_ports(tmp_path, taken, ADDRESS) == first
    said = capsys.readouterr().err
    assert f"keeps port {first.https}: port {taken} was taken" in said
    assert f"remove {tmp_path}/ports.json first" in said


@pytest.mark.parametrize("held", ["https", "fleet"])
def test_start_whose_data_folder_has_a_taken_port_fails_and_names_the_holder(
    tmp_path: Path, ports: Ports, held: str
) -> None:
    ports.record(tmp_path)
    with socket.create_server((ADDRESS, getattr(ports, held))):
        done = subprocess.run(
            [sys.executable, "-m", "deploy.supervisor", "--data", str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1 and not done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert f"Port {getattr(ports, held)} is held by pid {os.getpid()} (" in done.stderr
    assert "Stop that process, or move with --port PORT" in done.stderr


def test_data_folder_moves_to_a_free_port_on_request(tmp_path: Path, ports: Ports) -> None:
    ports.record(tmp_path)
    assert choose_ports(tmp_path, port(FIRST + 2), ADDRESS).https == port(FIRST + 2)
    with (
        socket.create_server((ADDRESS, port(FIRST + 2))),
        pytest.raises(SystemExit, match="is held by"),
    ):
        choose_ports(tmp_path, port(FIRST + 2), ADDRESS)
