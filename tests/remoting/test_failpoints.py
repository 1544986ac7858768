"""Switches that turn a protection off: the programs of tests have them, shipped ones do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.bundle import PROGRAMS as SHIPPED
from deploy.supervisor import BUILD
from tests.remoting import node as local
from tests.remoting.attacker import Attacker
from tests.remoting.node import FAILPOINTS, NULL_DRIVER, LocalNode
from tests.remoting.test_cage import LAYERS

NAME = b"BUSBAR_FAILPOINT"
SWITCHES: dict[str, Any] = {
    f"BUSBAR_FAILPOINT_{name}": "1"
    for name in ("NO_CAGES", "NO_SANDBOX", "NO_CONTROL_GROUPS", "NO_LANDLOCK")
}


def test_programs_of_tests_obey_failpoints(compiled: Callable[[str], Path]) -> None:
    node = LocalNode(NULL_DRIVER, **SWITCHES)
    try:
        layers = running_layers(node, compiled)
    finally:
        node.stop()
    assert not layers & set(LAYERS)


def test_shipped_programs_ignore_failpoints(
    compiled: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "programs_for", lambda environment: BUILD)
    node = LocalNode(NULL_DRIVER, **SWITCHES)
    try:
        layers = running_layers(node, compiled)
    finally:
        node.stop()
    assert layers >= set(LAYERS)


def running_layers(node: LocalNode, compiled: Callable[[str], Path]) -> set[str]:
    """Return the layers of a session whose program has got an answer, so that it has told them."""
    with Attacker(node, compiled("attack_client")).start("call 39", "pause") as program:
        assert program.stdout is not None and program.stdout.readline() == "0\n"
        (session,) = (s for s in node.sessions() if s.client_pid == program.pid)
        program.kill()
    return {layer for layer, on in session.isolation.items() if on}


@pytest.mark.parametrize("name", sorted(n for names in SHIPPED.values() for n in names))
def test_shipped_program_knows_no_failpoint(name: str) -> None:
    assert NAME not in (BUILD / name).read_bytes()


def test_programs_of_tests_know_failpoints() -> None:
    """Else the test above would look for another name than theirs."""
    programs = sorted((BUILD / FAILPOINTS).glob("busbar-*"))
    assert [p.name for p in programs] == ["busbar-launcher", "busbar-session", "busbar-spawner"]
    assert all(NAME in p.read_bytes() for p in programs)
