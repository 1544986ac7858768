"""What the systemd units of a node give its processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from nodes import service_control
from nodes.journal import Journal
from nodes.service import NodeService


class Units:
    """A journal that keeps the units in place of writing them."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.values: dict[str, dict[str, str]] = {}

    def create_file(self, path: Path, text: str) -> None:
        self.texts[path.name] = text
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
        self.values[path.name] = {name: value for name, _, value in pairs}

    def record(self, path: Path) -> None:
        pass


def written(service: NodeService) -> Units:
    journal = Units()
    service_control.write_units(cast("Journal", journal), service)
    assert set(journal.values) == set(service_control.UNITS)
    return journal


@pytest.fixture
def units() -> dict[str, dict[str, str]]:
    return written(NodeService("/p", "/s", "/m", "/state", "/runtime")).values


def test_kernel_ends_other_processes_before_those_of_the_node(
    units: dict[str, dict[str, str]],
) -> None:
    assert {unit["OOMScoreAdjust"] for unit in units.values()} == {"-900"}


def test_launcher_and_agent_go_before_all_sessions(units: dict[str, dict[str, str]]) -> None:
    """Sessions run in groups below that of the spawner."""
    weights = {name: int(unit.get("CPUWeight", "100")) for name, unit in units.items()}
    spawner = weights.pop(service_control.SPAWNER_UNIT)
    assert {weight / spawner for weight in weights.values()} == {10}


HOSTILE = NodeService(
    "/p",
    "/s",
    "/m%t",
    "/state",
    "/runtime",
    addresses=["fe80::1%eth0", "a b", "x\nUser=root", "x\rUser=root", '"$HOME\\'],
    python=sys.executable,
)


def test_addresses_stay_words_of_the_command_of_the_agent() -> None:
    agent = written(HOSTILE).values[service_control.AGENT_UNIT]
    _, *words = agent["ExecStart"].split(' "--address" ')
    assert words[:2] == ['"fe80::1%%eth0"', '"a b"']
    assert words[2:] == [r'"x\nUser=root"', r'"x\rUser=root"', r'"\"$$HOME\\"']
    assert agent["Environment"] == '"PYTHONPATH=/m%%t"'
    assert agent["User"] == "busbar"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_such_a_command(tmp_path: Path) -> None:
    unit = tmp_path / service_control.AGENT_UNIT
    unit.write_text(written(HOSTILE).texts[service_control.AGENT_UNIT])
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert unit.name not in done.stdout + done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
