"""Native code of a hostile tenant in a real session server: nothing that it tries may work."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.supervisor import ROOT, wait_for
from nodes.launcher_control import SessionReport
from tests.remoting.attacker import ENDED, RIGHTS, Attacker
from tests.remoting.node import NULL_DRIVER, LocalNode

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


PROCESS_LAYERS = {"seccomp", "no_new_privs", "resource_limits"}
LAYERS = ("seccomp", "no_new_privs", "resource_limits", "file_system", "network", "processes")


@pytest.fixture(scope="module", params=RIGHTS)
def cage_node(request: pytest.FixtureRequest) -> Iterator[LocalNode]:
    """A node whose spawner has the rights of this user, those of its unit, or none."""
    node = LocalNode(NULL_DRIVER, **RIGHTS[request.param])
    yield node
    node.stop()


@pytest.fixture
def victim() -> Iterator[int]:
    """Return the pid of another process of this user."""
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def attacker(cage_node: LocalNode, compiled: Callable[[str], Path]) -> Attacker:
    return Attacker(cage_node, compiled("attack_client"))


def running_isolation(attacker: Attacker) -> dict[str, bool]:
    """Return the isolation that the node reports for a running session."""
    with attacker.paused_session() as session:
        return session.isolation


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
    )
    assert Path(f"/proc/{victim}").exists()


def test_other_architecture_ends_the_session(attacker: Attacker) -> None:
    assert attacker.results("call32", "call 39") == [ENDED, ENDED]
    assert attacker.results(f"call {0x40000000 + 39}", "call 39") == [ENDED, ENDED]


def test_input_signals_no_other_process(attacker: Attacker, victim: int) -> None:
    assert attacker.results(f"signal_by_input {victim}") == [ENDED]
    assert Path(f"/proc/{victim}").exists()


def secret_files(node: LocalNode) -> list[Path]:
    """Return files of the node that no session may read."""
    other = node.runtime / "images" / ("f" * 32)
    other.mkdir(parents=True, exist_ok=True)
    (other / "image").write_text("of another tenant")
    return [
        node.runtime / "grants",
        node.runtime / "sessions",
        other / "image",
        Path("/etc/passwd"),
        Path.home(),
    ]


def test_session_sees_no_file_of_node_or_machine(attacker: Attacker, cage_node: LocalNode) -> None:
    results = attacker.results(*(f"read {path}" for path in secret_files(cage_node)))
    assert set(results) == {errno.ENOENT}


def test_session_cannot_change_files(attacker: Attacker) -> None:
    paths = ["/x", "/usr/lib/x", str(attacker.node.driver), "/images/x", "/kernels/tenant/x"]
    assert set(attacker.results(*(f"write {path}" for path in paths))) <= {
        errno.EROFS,
        errno.EACCES,
    }


def test_temporary_folder_is_private(attacker: Attacker) -> None:
    path = Path(f"/tmp/busbar-cage-test-{os.getpid()}")
    assert attacker.results(f"write {path}") == [0]
    assert not path.exists()


def test_session_sees_no_other_process(attacker: Attacker, victim: int) -> None:
    attacks = [f"read /proc/{victim}/cmdline", f"memory {victim}", f"read /proc/{os.getpid()}/stat"]
    assert set(attacker.results(*attacks)) == {errno.ENOENT}


def connect_to_sockets(attacker: Attacker) -> list[int]:
    """Return the results of connecting to sockets of node and machine."""
    name = f"busbar-cage-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        runtime = attacker.node.runtime
        targets = [runtime / "agent.sock", runtime / "spawner.sock", f"@{name}"]
        return attacker.results(*(f"connect {target}" for target in targets))


def test_session_connects_to_no_socket(attacker: Attacker) -> None:
    assert connect_to_sockets(attacker) == [errno.EACCES] * 3


def test_cage_hides_sockets_of_node_and_machine(compiled: Callable[[str], Path]) -> None:
    """Also from a session whose filter of system calls is missing."""
    node = LocalNode(NULL_DRIVER, BUSBAR_FAILPOINT_NO_SANDBOX="1")
    try:
        results = connect_to_sockets(Attacker(node, compiled("attack_client")))
    finally:
        node.stop()
    assert results == [errno.ENOENT, errno.ENOENT, errno.ECONNREFUSED]


def test_session_has_no_network(attacker: Attacker) -> None:
    inet, stream = 2, 1
    assert attacker.results(f"call 41 {inet} {stream} 0") == [ENDED]


def test_report_lists_the_layers_in_force(attacker: Attacker) -> None:
    isolation = running_isolation(attacker)
    assert [layer for layer in LAYERS if not isolation[layer]] == []
    assert set(LAYERS) <= set(attacker.node.control.sessions().isolation)


@pytest.fixture
def small_cages(compiled: Callable[[str], Path]) -> Iterator[Attacker]:
    """A node whose sessions may use 256 MiB of host memory, if it can make control groups."""
    node = LocalNode(NULL_DRIVER, BUSBAR_CAGE_MEMORY_BYTES=str(256 << 20))
    attacker = Attacker(node, compiled("attack_client"))
    if not running_isolation(attacker)["cgroup"]:
        node.stop()
        pytest.skip("no control group of this process permits groups inside it")
    yield attacker
    node.stop()


def test_session_cannot_use_the_memory_of_the_machine(small_cages: Attacker) -> None:
    assert small_cages.results("use_memory 512") == [ENDED]
    assert small_cages.results("call 39") == [0]


def test_session_cannot_use_all_threads_of_the_machine(small_cages: Attacker) -> None:
    assert small_cages.results("use_threads 3000") == [errno.EAGAIN]


def cpu_group(pid: int) -> str:
    """Return the control group that decides on the processor time of a process."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    groups = dict(line.split(":", 2)[1:] for line in lines)
    return next((group for names, group in groups.items() if "cpu" in names.split(",")), groups[""])


def test_all_cages_together_have_one_weight(small_cages: Attacker) -> None:
    """Many busy sessions leave the launcher as much processor time as one does."""
    with small_cages.paused_session() as first, small_cages.paused_session() as second:
        parents = {cpu_group(s.pid).rpartition("/")[0] for s in (first, second)}
    assert [Path(p).name for p in parents] == ["busbar-cages"]


def test_kernel_ends_sessions_before_the_node(attacker: Attacker) -> None:
    """Sessions of every node say so, whatever the spawner may do."""
    with attacker.paused_session() as session:
        score = int(Path(f"/proc/{session.pid}/oom_score_adj").read_text())
    assert score == 500
    own = int(Path(f"/proc/{attacker.node.spawner.pid}/oom_score_adj").read_text())
    assert own < score


def limits_in_log(node: LocalNode) -> str:
    lines = (node.folder / "launcher.log").read_text().splitlines()
    return next(line for line in lines if "limits of all sessions together" in line)


def test_node_says_which_limits_all_sessions_together_have(small_cages: Attacker) -> None:
    line = limits_in_log(small_cages.node)
    assert re.search(r": \d{9,14} bytes of host memory, one weight of processor time, oom", line)


def test_node_says_that_all_sessions_together_have_no_limit() -> None:
    node = LocalNode(NULL_DRIVER, BUSBAR_FAILPOINT_NO_CONTROL_GROUPS="1")
    line = limits_in_log(node)
    node.stop()
    assert "NO limit of host memory, NO weight of processor time" in line


def test_session_of_root_cannot_change_settings_of_the_kernel(
    compiled: Callable[[str], Path],
) -> None:
    """Files of root in /proc permit it without capabilities."""
    node = LocalNode(NULL_DRIVER, BUSBAR_FAILPOINT_NO_LANDLOCK="1", BUSBAR_CAGE_USERS="none")
    attacker = Attacker(node, compiled("attack_client"))
    try:
        isolation = running_isolation(attacker)
        files = ["/proc/sys/kernel/core_pattern", "/proc/self/comm", "/proc/self/task/1/comm"]
        results = attacker.results(*(f"write {path}" for path in files))
    finally:
        node.stop()
    assert not isolation["user"] and results == [errno.EROFS, errno.EROFS, 0]


def test_node_that_cannot_make_control_groups_says_so(compiled: Callable[[str], Path]) -> None:
    """An installed node without systemd has no group in which it may make others."""
    node = LocalNode(NULL_DRIVER, BUSBAR_FAILPOINT_NO_CONTROL_GROUPS="1")
    attacker = Attacker(node, compiled("attack_client"))
    try:
        isolation = running_isolation(attacker)
        layers = node.control.sessions().isolation
        node.require(frozenset({"cgroup"}))
        assert attacker.results("call 39") == []
    finally:
        node.stop()
    assert not isolation["cgroup"] and "cgroup" not in layers
    assert [layer for layer in LAYERS if not isolation[layer]] == []


def test_node_that_cannot_make_namespaces_says_so(compiled: Callable[[str], Path]) -> None:
    node = LocalNode(NULL_DRIVER)
    try:
        node.restart_spawner(BUSBAR_FAILPOINT_NO_CAGES="1")
        attacker = Attacker(node, compiled("attack_client"))
        attacker.results("call 39")  # takes the spare session server of the earlier spawner
        isolation = running_isolation(attacker)
        layers = set(node.control.sessions().isolation)
        node.require(frozenset(PROCESS_LAYERS))
        assert attacker.results("call 39") == [0]
        node.require(frozenset(LAYERS))
        assert attacker.results("call 39") == []
        node.require(frozenset({"a layer of the future"}))
        assert attacker.results("call 39") == []
    finally:
        node.stop()
    assert {layer for layer in LAYERS if isolation[layer]} == layers & set(LAYERS) == PROCESS_LAYERS


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
