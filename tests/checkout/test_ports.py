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
    return Ports(port(FIRST), port(FIRST + 1))


@pytest.fixture
def taken(ports: Ports) -> Iterator[int]:
    """The HTTPS port, which this process holds."""
    with socket.create_server((ADDRESS, ports.https)):
        yield ports.https


def test_first_start_takes_another_port_and_says_so(
    tmp_path: Path, taken: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.ports.DEFAULT_PORT", taken)
    chosen = choose_ports(tmp_path, None, ADDRESS)
    assert (chosen.https, chosen.fleet) == (taken + 1, taken + 2)
    said = capsys.readouterr().err
    assert f"Port {taken} is held by pid {os.getpid()} (" in said and str(taken + 1) in said
    chosen.record(tmp_path)
    for named in (None, chosen.https):
        assert choose_ports(tmp_path, named, ADDRESS) == chosen
    assert capsys.readouterr().err == ""


def test_port_that_the_user_names_is_not_replaced_by_another(tmp_path: Path, taken: int) -> None:
    refusal = rf"Port {taken} is held by pid {os.getpid()} \(.*\)\. Stop that process, or name"
    with pytest.raises(SystemExit, match=refusal):
        choose_ports(tmp_path, taken, ADDRESS)


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


def test_data_folder_moves_to_a_free_port_on_request_and_says_so(
    tmp_path: Path, ports: Ports, capsys: pytest.CaptureFixture[str]
) -> None:
    ports.record(tmp_path)
    assert choose_ports(tmp_path, port(FIRST + 2), ADDRESS).https == port(FIRST + 2)
    assert f"moves from port {ports.https} to port {port(FIRST + 2)}" in capsys.readouterr().err
    with (
        socket.create_server((ADDRESS, port(FIRST + 2))),
        pytest.raises(SystemExit, match="name another port with --port"),
    ):
        choose_ports(tmp_path, port(FIRST + 2), ADDRESS)
