"""Users of cages: no two session servers have one uid if the spawner has its unit's rights."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from nodes.launcher_control import SessionReport
from nodes.privileges import SPAWNER_CAPABILITIES
from nodes.service import UNPRIVILEGED_ID, NodeService
from nodes.service_control import spawner_unit
from tests.ports import port
from tests.remoting.attacker import Attacker
from tests.remoting.node import EVENT_SECONDS, NULL_DRIVER, LocalNode
from tests.remoting.test_spares import session_servers

pytestmark = pytest.mark.skipif(
    os.getuid() != 0, reason="only root can start a spawner with capabilities of its unit"
)
USERS = 4
"""Size of a range that is small enough to use up."""
FIRST_USERS = itertools.count(2_100_000_000 + USERS * port(0), USERS)
"""First users of the ranges of nodes. Processes of an earlier node may still be ending."""


def capabilities_of_unit() -> tuple[str, ...]:
    unit = spawner_unit(NodeService("/p", "/s", "/m", "/state", "/runtime"))
    lines = dict(line.split("=", 1) for line in unit.splitlines() if "Capabilit" in line)
    assert lines["CapabilityBoundingSet"] == lines["AmbientCapabilities"]
    return tuple(lines["AmbientCapabilities"].split())


def start_node(capabilities: tuple[str, ...]) -> LocalNode:
    first = next(FIRST_USERS)
    return LocalNode(
        NULL_DRIVER,
        user=UNPRIVILEGED_ID,
        capabilities=capabilities,
        BUSBAR_CAGE_USERS=f"{first}-{first + USERS - 1}",
    )


@pytest.fixture
def attacker(compiled: Callable[[str], Path]) -> Iterator[Attacker]:
    """A node whose spawner has exactly the capabilities of its systemd unit."""
    node = start_node(capabilities_of_unit())
    yield Attacker(node, compiled("attack_client"))
    node.stop()


def user_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    uids = next(line for line in status if line.startswith("Uid:")).split()[1:]
    assert len(set(uids)) == 1
    return int(uids[0])


def state_of(node: LocalNode, session: SessionReport) -> str:
    return next(s.state for s in node.sessions() if s.session_id == session.session_id)


def test_capabilities_of_the_unit_suffice_for_cages_with_own_users(attacker: Attacker) -> None:
    with attacker.paused_session() as session:
        first, last = map(int, attacker.node.env["BUSBAR_CAGE_USERS"].split("-"))
        assert first <= user_of(session.pid) <= last
        layers = ("user", "file_system", "network", "processes")
        assert [layer for layer in layers if not session.isolation[layer]] == []


@pytest.mark.parametrize("missing", SPAWNER_CAPABILITIES)
def test_unit_has_no_capability_that_is_not_needed(
    compiled: Callable[[str], Path], missing: str
) -> None:
    node = start_node(tuple(name for name in capabilities_of_unit() if name != missing))
    try:
        attacker = Attacker(node, compiled("attack_client"))
        has_session = attacker.results("call 39") == [0]
        assert not has_session or not node.sessions()[0].isolation["user"]
    finally:
        node.stop()


def test_sessions_at_the_same_time_have_different_users(attacker: Attacker) -> None:
    with ExitStack() as running:
        sessions = [running.enter_context(attacker.paused_session()) for _ in range(3)]
        users = [user_of(s.pid) for s in sessions]
    assert len(set(users)) == len(users)


def test_user_of_a_session_is_not_given_away_by_the_next_spawner(attacker: Attacker) -> None:
    with ExitStack() as running:
        before = running.enter_context(attacker.paused_session())
        attacker.node.restart_spawner()
        later = [running.enter_context(attacker.paused_session()) for _ in range(2)]
        assert user_of(before.pid) not in [user_of(s.pid) for s in later]


def test_session_without_a_free_user_is_refused(attacker: Attacker) -> None:
    with ExitStack() as running:
        for _ in range(USERS):
            running.enter_context(attacker.paused_session())
        assert attacker.start("call 39").wait(EVENT_SECONDS) == 1
    log = (attacker.node.folder / "launcher.log").read_text()
    assert "all users of cages are taken: extend BUSBAR_CAGE_USERS" in log
    wait_for("a free user", lambda: attacker.results("call 39") == [0], attacker.node.folder)


def requests_to_the_spawner(node: LocalNode) -> int:
    """Return the connections that the spawner has not closed yet."""
    path = str(node.runtime / "spawner.sock")
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(f" {path}") for line in lines) - 1


def connections(port: int) -> int:
    """Return the connections of clients to the launcher, or to their session servers."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    established = [line.split()[1] for line in lines if line.split()[3] == "01"]
    return sum(address.endswith(f":{port:04X}") for address in established)


def test_program_gets_the_spare_that_took_the_last_user(attacker: Attacker) -> None:
    node, log = attacker.node, attacker.node.folder / "launcher.log"

    def has_spare() -> bool:
        return len(session_servers(node)) == USERS

    with ExitStack() as running:
        for _ in range(USERS - 1):
            running.enter_context(attacker.paused_session())
        node.spawner.send_signal(signal.SIGSTOP)  # before the launcher asks for a spare, as a rule
        running.callback(node.spawner.send_signal, signal.SIGCONT)
        wait_for("a spare", lambda: requests_to_the_spawner(node) > 0 or has_spare(), log)
        program = running.enter_context(attacker.start("call 39", "pause"))
        running.callback(program.kill)
        wait_for("the program", lambda: connections(node.port) == USERS, log)
        node.spawner.send_signal(signal.SIGCONT)
        assert program.stdout is not None and program.stdout.readline() == "0\n"


def test_files_of_sessions_belong_to_the_launcher_on_the_disk(attacker: Attacker) -> None:
    with attacker.paused_session() as session:
        written = attacker.results("write /images/tenant/x")
        files = [p for p in attacker.node.runtime.rglob("*") if p.name == "x" or p.is_socket()]
        owners = {p.stat().st_uid for p in files}
    assert session.isolation["user"] and written == [0] and len(files) >= 3
    assert owners == {UNPRIVILEGED_ID}


def test_launcher_ends_a_stopped_session_of_another_user(attacker: Attacker) -> None:
    with attacker.paused_session() as session:
        os.kill(session.pid, signal.SIGSTOP)
        attacker.node.grant(granted=False)
        log = attacker.node.folder / "launcher.log"
        wait_for("the end", lambda: state_of(attacker.node, session) == "closed", log)
        wait_for("the process to be gone", lambda: not Path(f"/proc/{session.pid}").exists(), log)


def test_session_of_another_user_is_adopted_and_ended(attacker: Attacker) -> None:
    """Neither the next launcher nor the next spawner has started the session."""
    node = attacker.node
    with attacker.paused_session() as session:
        node.restart_spawner()
        node.restart()
        assert state_of(node, session) == "running" and Path(f"/proc/{session.pid}").exists()
        assert attacker.results("call 39") == [0]
        os.kill(session.pid, signal.SIGSTOP)
        node.grant(granted=False)
        log = node.folder / "launcher.log"
        wait_for("the end", lambda: state_of(node, session) == "closed", log)
