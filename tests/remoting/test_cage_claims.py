"""Claims of a session about itself, its environment, and resources that it holds."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from nodes.launcher_control import SessionReport
from tests.remoting.attacker import RIGHTS, Attacker
from tests.remoting.node import NULL_DRIVER, LocalNode

LIE = (1 << 64) - 1
"""Value of every number that a lying session reports."""


@pytest.fixture(scope="module")
def node() -> Iterator[LocalNode]:
    node = LocalNode(NULL_DRIVER, BUSBAR_TEST_SECRET="of the node")
    yield node
    node.stop()


@pytest.fixture
def attacker(node: LocalNode, compiled: Callable[[str], Path]) -> Attacker:
    return Attacker(node, compiled("attack_client"))


@contextmanager
def attacking(attacker: Attacker, *attacks: str) -> Iterator[list[int]]:
    """Run attacks and a last one that waits; yield the results of the others."""
    with attacker.start(*attacks, "pause") as program:
        try:
            assert program.stdout is not None
            yield [int(program.stdout.readline()) for _ in attacks]
        finally:
            program.kill()


def lying_session(node: LocalNode) -> SessionReport | None:
    return next((s for s in node.sessions() if s.bytes_in == LIE), None)


def test_session_cannot_change_the_isolation_that_the_node_reports(
    attacker: Attacker, node: LocalNode
) -> None:
    """Otherwise it could take the node from pools that require a layer."""
    with attacker.paused_session() as honest:
        expected = honest.isolation
    with attacking(attacker, "lie_about_status") as results:
        assert results == [0]
        log = node.folder / "launcher.log"
        wait_for("the lie", lambda: lying_session(node) is not None, log)
        session = lying_session(node)
        assert session is not None and session.isolation == expected
        layers = {name for name, on in expected.items() if on}
        assert set(node.control.sessions().isolation) == layers


def test_session_gets_no_variable_of_the_node_that_it_does_not_need(attacker: Attacker) -> None:
    assert "BUSBAR_TEST_SECRET" in attacker.node.env
    attacks = ("find_variable BUSBAR_TEST_SECRET", "find_variable PATH")
    assert attacker.results(*attacks) == [errno.ENOENT, 0]


def test_descriptors_that_a_session_sends_stay_with_nobody(
    attacker: Attacker, node: LocalNode
) -> None:
    def descriptors() -> int:
        processes = (node.spawner, node.launcher)
        return sum(len(list(Path(f"/proc/{p.pid}/fd").iterdir())) for p in processes)

    assert attacker.results("call 39") == [0]
    log = node.folder / "launcher.log"
    wait_for("the end", lambda: all(s.state == "closed" for s in node.sessions()), log)
    before = descriptors()
    sent = 50  # far more than a spare session server needs, which may start meanwhile
    assert attacker.results(f"send_descriptors {sent}") == [0]
    wait_for("the descriptors to be closed", lambda: descriptors() < before + sent // 2, log)


@pytest.mark.parametrize("rights", RIGHTS)
def test_session_cannot_use_up_the_descriptors_of_its_user(
    compiled: Callable[[str], Path], rights: str
) -> None:
    """Launcher, spawner and other sessions may have the same user, and pass descriptors."""
    node = LocalNode(NULL_DRIVER, **RIGHTS[rights])
    attacker = Attacker(node, compiled("attack_client"))
    try:
        with attacking(attacker, "keep_descriptors_on_their_way") as results:
            assert results == [0]
            assert [attacker.results("call 39") for _ in range(3)] == [[0]] * 3
    finally:
        node.stop()


def test_adopted_session_cannot_make_forbidden_calls(attacker: Attacker, node: LocalNode) -> None:
    """The launcher that would kill it is gone, so the call itself fails."""
    fork = 57
    with attacker.start("call 39", "wait /images/tenant/go", f"call {fork}") as program:
        assert program.stdout is not None and program.stdout.readline() == "0\n"
        node.restart()
        (node.runtime / "images" / node.tenant_id.hex / "go").touch()
        assert program.stdout.read().split() == ["0", str(errno.ENOSYS)]
