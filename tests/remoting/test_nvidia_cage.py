"""Native code in a session server that may make the system calls of NVIDIA's driver (ADR 91)."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from nodes.launcher_control import SessionReport
from tests.remoting.attacker import ENDED, RIGHTS, Attacker
from tests.remoting.node import NVIDIA_NULL_DRIVER, LocalNode
from tests.remoting.test_cage import LAYERS

LANDLOCK_VERSION = ctypes.CDLL(None).syscall(444, None, 0, 1)  # -1: the kernel has none
WITH_NETWORK = 4
"""The first version of Landlock that denies TCP."""
DENIED = {errno.EACCES, errno.EROFS}


@pytest.fixture(scope="module", params=RIGHTS)
def node(request: pytest.FixtureRequest) -> Iterator[LocalNode]:
    """A node whose spawner has the rights of this user, those of its unit, or none."""
    node = LocalNode(NVIDIA_NULL_DRIVER, **RIGHTS[request.param])
    yield node
    node.stop()


@pytest.fixture
def attacker(node: LocalNode, compiled: Callable[[str], Path]) -> Attacker:
    return Attacker(node, compiled("attack_client"))


@pytest.fixture(scope="module")
def exposed(compiled: Callable[[str], Path]) -> Iterator[Attacker]:
    """Planted: cages without Landlock, whose sessions have the user of the launcher."""
    node = LocalNode(NVIDIA_NULL_DRIVER, BUSBAR_FAILPOINT_NO_LANDLOCK="1", BUSBAR_CAGE_USERS="none")
    yield Attacker(node, compiled("attack_client"))
    node.stop()


def sockets_of(node: LocalNode) -> dict[str, int]:
    """Return names and inodes of the sockets in the folder of the allocation."""
    folder = node.runtime / "sessions" / node.allocation_id.hex
    return {path.name: path.stat().st_ino for path in folder.iterdir()}


def socket_attacks(other: SessionReport) -> dict[str, str]:
    """Return attacks on the folder of sockets, and on the sockets of another session."""
    folder = "/sockets/allocation"
    victim = f"{folder}/{other.session_id.hex[:16]}"
    return {
        "listening at a path": f"bind {folder}/x",
        "files of sockets without end": f"flood {folder}/flood 1000",
        "name of another session": f"take {victim}.offers {victim}.sock",
        "removal of a control socket": f"remove {victim}.sock",
        "removal of offers": f"remove {victim}.offers",
        "file": f"write {folder}/x",
    }


def results_on_sockets(attacker: Attacker) -> dict[str, int]:
    with attacker.paused_session() as other:
        before = sockets_of(attacker.node)
        assert {name.rpartition(".")[2] for name in before} == {"sock", "offers"}
        attacks = socket_attacks(other)
        results = dict(zip(attacks, attacker.results(*attacks.values()), strict=True))
        after = sockets_of(attacker.node)
        assert before.items() <= after.items()
    return results


def test_session_changes_no_socket_of_its_allocation(attacker: Attacker) -> None:
    """Nor fills the node's file system with files of sockets."""
    results = results_on_sockets(attacker)
    assert {name: r for name, r in results.items() if r not in DENIED} == {}


def test_session_without_landlock_changes_no_socket_of_its_allocation(exposed: Attacker) -> None:
    results = results_on_sockets(exposed)
    assert {name: r for name, r in results.items() if r != errno.EROFS} == {}


def test_abstract_sockets_are_those_of_the_cage(attacker: Attacker) -> None:
    """A session can take each name, and reaches no process that has it outside."""
    name = f"busbar-nvidia-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.bind(f"\0{name}".encode())
        results = attacker.results(f"send @{name}", f"bind @{name}")
        assert results == [errno.ECONNREFUSED, 0]
        service.setblocking(False)
        with pytest.raises(BlockingIOError):
            service.recv(1)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def is_free(port: int) -> bool:
    with socket.socket() as service:
        try:
            service.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def occupied(attacker: Attacker) -> bool:
    """Return whether a session binds the connection of its client to a port of the machine."""
    port = free_port()
    log = attacker.node.folder / "launcher.log"
    before = log.read_text().count("occupy: ")
    with attacker.start(f"occupy {port}") as program:
        wait_for("the result", lambda: log.read_text().count("occupy: ") > before, log)
        free = is_free(port)
        program.kill()
    return not free


@pytest.mark.skipif(LANDLOCK_VERSION < WITH_NETWORK, reason="Landlock of the kernel permits TCP")
def test_session_occupies_no_port_of_the_machine(attacker: Attacker) -> None:
    assert not occupied(attacker)


def test_port_is_occupied_without_landlock(exposed: Attacker) -> None:
    """The network namespace of the cage does not prevent it."""
    assert occupied(exposed)


@pytest.mark.skipif(LANDLOCK_VERSION < 1, reason="the kernel has no Landlock")
def test_landlock_denies_what_mounts_permit(attacker: Attacker) -> None:
    """Mounts let a session make folders among its images, where they would evade the quota."""
    with attacker.paused_session() as session:
        assert session.isolation["landlock"]
    attacks = ["make_folder /images/tenant/x", "hide /images/tenant/y", "write /images/tenant/z"]
    assert attacker.results(*attacks) == [errno.EACCES, errno.EACCES, 0]


def test_node_without_landlock_says_so(exposed: Attacker) -> None:
    """Without Landlock the folders of the test above are made."""
    with exposed.paused_session() as session:
        isolation = session.isolation
    assert exposed.results("make_folder /images/tenant/x", "hide /images/tenant/y") == [0, 0]
    assert not isolation["landlock"] and not isolation["user"]
    assert [layer for layer in LAYERS if not isolation[layer]] == []


OWN_FILES = (
    "attr/current,attr/exec,attr/fscreate,attr/keycreate,attr/sockcreate,clear_refs,comm,"
    "gid_map,loginuid,mem,oom_adj,oom_score_adj,projid_map,sched,uid_map"
)
"""Files of a thread that a session of the launcher's user may open for writing.

The kernel decides about each write. With a user of its own it opens `attr` and `comm` only.
"""


def test_files_of_threads_change_nothing_else(attacker: Attacker) -> None:
    folder = "/proc/self/task"
    attacks = [
        f"write_below {folder} {OWN_FILES}",
        f"write {folder}/../comm",
        f"write {folder}/../../sys/kernel/core_pattern",
        f"write {folder}/1/root/usr/lib/x",
        f"write {folder}/1/root/proc/sys/kernel/core_pattern",
        f"write {folder}/1/cwd/x",
        f"read {folder}/1/root/etc/passwd",
        f"read {folder}/{os.getpid()}/stat",
        f"put {folder}/1/oom_score_adj -1",
        f"put {folder}/1/uid_map 0 0 1",
        f"put {folder}/1/gid_map 0 0 1",
        f"put {folder}/1/attr/exec unconfined",
    ]
    results = dict(zip(attacks, attacker.results(*attacks), strict=True))
    assert {attack: r for attack, r in results.items() if r in (0, ENDED)} == {}
