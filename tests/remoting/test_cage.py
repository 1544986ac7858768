"""Native code of a hostile tenant in a real session server: nothing that it tries may work."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.supervisor import ROOT, wait_for
from nodes.launcher_control import SessionReport
from tests.remoting.node import NULL_DRIVER, LocalNode

ENDED = -1
"""Result of an attack that the session did not survive."""

REASON = "it was killed: its session server made the system call "
SYSTEM_CALLS = {
    "fork": "57",
    "vfork": "58",
    "execve": "59",
    "ptrace": "101 16 1",
    "kill": "62 {victim} 9",
    "tkill": "200 {victim} 9",
    "tgkill": "234 {victim} {victim} 9",
    "rt_sigqueueinfo": "129 {victim} 9 0",
    "pidfd_open": "434 {victim} 0",
    "pidfd_getfd": "438 0 0 0",
    "pidfd_send_signal": "424 0 9 0 0",
    "process_vm_readv": "310 {victim} 0 0 0 0 0",
    "process_vm_writev": "311 {victim} 0 0 0 0 0",
    "process_madvise": "440 0 0 0 0 0",
    "kcmp": "312 {victim} {victim} 0 0 0",
    "io_uring_setup": "425 1 0",
    "clone": "56 0x10020000",
    "unshare": "272 0x10000000",
    "setns": "308 0 0",
    "mount": "165 0 0 0 0 0",
    "fsopen": "430 0 0",
    "fsmount": "432 0 0 0",
    "open_tree": "428 -100 0 1",
    "move_mount": "429 0 0 0 0 0",
    "pivot_root": "155 0 0",
    "chroot": "161 0",
    "bpf": "321 0 0 0",
    "userfaultfd": "323 0",
    "perf_event_open": "298 0 0 0 0 0",
    "keyctl": "250 0 0",
    "shmget": "29 0 4096 0x3b6",
    "msgget": "68 0 0x3b6",
    "semget": "64 0 1 0x3b6",
    "timer_create": "222 0 0 0",
    "setuid": "105 0",
    "capset": "126 0 0",
    "setpriority": "141 0 {victim} 19",
    "prctl": "157 4 1",
    "prlimit64": "302 {victim} 7 0 0",
    "open_by_handle_at": "304 0 0 0",
    "mknod": "133 0 0 0",
    "link": "86 0 0",
    "symlink": "88 0 0",
    "chmod": "90 0 0x1ff",
    "name_to_handle_at": "303 0 0 0 0 0",
    "landlock_create_ruleset": "444 0 0 1",
    "seccomp": "317 0 0 0",
    "personality": "135 0x20000",
}
"""Name and, for native code, number and arguments of calls that end a session."""


@pytest.fixture(scope="module")
def cage_node() -> Iterator[LocalNode]:
    node = LocalNode(NULL_DRIVER)
    yield node
    node.stop()


@pytest.fixture
def victim() -> Iterator[int]:
    """Return the pid of another process of this user."""
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        yield process.pid
        process.kill()


class Attacker:
    """Runs attacks in session servers of a node."""

    def __init__(self, node: LocalNode, program: Path) -> None:
        self.node, self.program = node, program

    def start(self, *attacks: str) -> subprocess.Popen[str]:
        """Start a program whose session server runs the attacks."""
        return subprocess.Popen(
            [self.program, *attacks],
            env=self.node.remote_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def results(self, *attacks: str) -> list[int]:
        """Return 0 for an attack that worked, else an errno, or ENDED."""
        out, _ = self.start(*attacks).communicate(timeout=60)
        return [int(line) for line in out.split()]


@pytest.fixture
def attacker(cage_node: LocalNode, compiled: Callable[[str], Path]) -> Attacker:
    return Attacker(cage_node, compiled("attack_client"))


def closed(node: LocalNode) -> list[SessionReport]:
    return [s for s in node.sessions() if s.state == "closed"]


def test_attacks_reach_the_session_server(attacker: Attacker) -> None:
    """Native code runs in the session server: it can do what the session may do."""
    assert attacker.results("call 39", "nonsense") == [0, errno.EINVAL]


def test_forbidden_system_call_ends_the_session_and_is_named(
    attacker: Attacker, cage_node: LocalNode, victim: int
) -> None:
    programs = [
        attacker.start("call " + call.format(victim=victim), "call 39")
        for call in SYSTEM_CALLS.values()
    ]
    results = {
        name: [int(line) for line in program.communicate(timeout=60)[0].split()]
        for name, program in zip(SYSTEM_CALLS, programs, strict=True)
    }
    assert {name: r for name, r in results.items() if r != [ENDED, ENDED]} == {}
    expected = {REASON + name for name in SYSTEM_CALLS}
    wait_for(
        "the reasons",
        lambda: expected <= {s.reason for s in closed(cage_node)},
        cage_node.folder / "launcher.log",
        10,
    )
    assert Path(f"/proc/{victim}").exists()


def test_other_architecture_ends_the_session(attacker: Attacker) -> None:
    assert attacker.results("call32", "call 39") == [ENDED, ENDED]
    assert attacker.results(f"call {0x40000000 + 39}", "call 39") == [ENDED, ENDED]


def test_input_signals_no_other_process(attacker: Attacker, victim: int) -> None:
    assert attacker.results(f"signal_by_input {victim}") == [ENDED]
    assert Path(f"/proc/{victim}").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of another user")
def test_program_that_is_no_agent_cannot_send_grants(cage_node: LocalNode) -> None:
    """Only processes of the launcher's user that are no session servers are served."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from nodes.launcher_control import LauncherControl\n"
        "os.setuid(65534)\n"
        "print(LauncherControl(Path(sys.argv[1])).sessions())"
    )
    for folder in (cage_node.folder, cage_node.runtime, cage_node.runtime / "agent.sock"):
        folder.chmod(0o777)
    command = [sys.executable, "-c", code, str(cage_node.runtime / "agent.sock")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "LauncherError" in done.stderr
    assert "its peer is no agent" in (cage_node.folder / "launcher.log").read_text()
