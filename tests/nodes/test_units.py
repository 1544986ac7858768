"""What the systemd units of a node give its processes."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from nodes import service_control
from nodes.journal import Journal
from nodes.service import NodeService


class Units:
    """A journal that keeps the units in place of writing them."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.values: dict[str, dict[str, str]] = {}

    def create_file(self, path: Path, text: str) -> None:
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
        self.values[path.name] = {name: value for name, _, value in pairs}

    def save(self) -> None:
        pass


@pytest.fixture
def units() -> dict[str, dict[str, str]]:
    journal = Units()
    service = NodeService("/p", "/s", "/m", "/state", "/runtime")
    service_control.write_units(cast("Journal", journal), service)
    assert set(journal.values) == set(service_control.UNITS)
    return journal.values


def test_kernel_ends_other_processes_before_those_of_the_node(
    units: dict[str, dict[str, str]],
) -> None:
    assert {unit["OOMScoreAdjust"] for unit in units.values()} == {"-900"}


def test_launcher_and_agent_go_before_all_sessions(units: dict[str, dict[str, str]]) -> None:
    """Sessions run in groups below that of the spawner."""
    weights = {name: int(unit.get("CPUWeight", "100")) for name, unit in units.items()}
    spawner = weights.pop(service_control.SPAWNER_UNIT)
    assert {weight / spawner for weight in weights.values()} == {10}
