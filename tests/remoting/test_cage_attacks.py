"""Attacks of native code on the node: each works without a cage and fails in one."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from tests.remoting.attacker import RIGHTS, Attacker
from tests.remoting.node import NULL_DRIVER, NVIDIA_NULL_DRIVER, LocalNode

pytestmark = pytest.mark.skipif(
    os.getuid() != 0, reason="attacks that must work without a cage need root's rights"
)
ATTACKS = {
    "key of the launcher": "read {folder}/r/grants",
    "key by a relative path": "read ../../../../../../..{folder}/r/grants",
    "key by /proc": "read /proc/{victim}/root{folder}/r/grants",
    "key by inherited descriptors": "read_below_descriptors {folder}/r/grants",
    "inherited file": "find_file_descriptor",
    "log of the node": "read {folder}/launcher.log",
    "log behind standard error": "read /proc/self/fd/2",
    "removal of the log's text": "empty_log",
    "grants": "write {runtime}/grants",
    "kernels of another tenant": "read {other}/kernel.so",
    "change of another tenant's kernels": "write {other}/kernel.so",
    "kernels by a relative path": "read /tmp/../..{other}/kernel.so",
    "file of the machine": "write {folder}/planted",
    "command line of a process": "read /proc/{victim}/cmdline",
    "environment of a process": "read /proc/{victim}/environ",
    "memory of a process": "memory {victim}",
    "process_vm_readv": "read_process {victim} {address}",
    "ptrace": "call 101 0x4206 {victim}",
    "kill": "call 62 {victim} 0",
    "pidfd_open": "call 434 {victim} 0",
    "TCP": "connect_tcp {port}",
    "socket of the agent": "connect {runtime}/agent.sock",
    "socket of the spawner": "connect {runtime}/spawner.sock",
    "abstract socket": "connect @{abstract}",
    "shared memory of System V": "call 29 {key} 1 0",
    "mount": "mount {mount}",
    "setuid": "call 105 1",
    "network namespace": "call 272 0x40000000",
    "processes": "fork 20",
    "memory of the machine": "use_memory 512",
    "threads of the machine": "use_threads 2100",
    "reserved pages": "use_huge_page",
}


class Target:
    """A node and the things that a session of it must not reach."""

    def __init__(self, node: LocalNode, attacker: Attacker, values: dict[str, object]) -> None:
        self.attacker = attacker
        other = node.folder / "kernels" / ("f" * 32)
        other.mkdir(parents=True, exist_ok=True)
        (other / "kernel.so").write_text("of another tenant")
        self.values = values | {"folder": node.folder, "runtime": node.runtime, "other": other}

    def command(self, attack: str) -> str:
        return ATTACKS[attack].format(**self.values)

    def result(self, attack: str) -> int:
        return self.attacker.results(self.command(attack))[0]


def address_of_mapping(pid: int) -> str:
    first = Path(f"/proc/{pid}/maps").read_text().split("-", 1)[0]
    return f"0x{first}"


@contextmanager
def shared_memory() -> Iterator[int]:
    """Yield the key of a segment of System V, as a number."""
    libc, key, create_for_all, remove = ctypes.CDLL(None), os.getpid(), 0o1666, 0
    segment = libc.shmget(key, 1, create_for_all)
    assert segment >= 0
    yield key
    libc.shmctl(segment, remove, None)


@pytest.fixture(scope="module")
def victim() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        executed = Path(f"/proc/{process.pid}/cmdline")
        wait_for("the victim", lambda: executed.read_bytes().startswith(b"/bin/sleep"), executed)
        yield process
        process.kill()


@pytest.fixture(scope="module")
def values(
    victim: subprocess.Popen[bytes], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, object]]:
    folder = tmp_path_factory.mktemp("mount")
    name = f"busbar-attacks-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as listener,
        shared_memory() as key,
    ):
        listener.bind(f"\0{name}".encode())
        listener.listen(100)
        yield {
            "victim": victim.pid,
            "address": address_of_mapping(victim.pid),
            "port": server.getsockname()[1],
            "abstract": name,
            "key": key,
            "mount": folder,
        }
        subprocess.run(["umount", "-q", folder], check=False)


@pytest.fixture(scope="module")
def folder_of_the_machine() -> Iterator[int]:
    """A folder that spawners inherit: session servers inherit it, too, unless it is closed."""
    folder = os.open("/", os.O_PATH)
    yield folder
    os.close(folder)


@pytest.fixture(scope="module")
def exposed(
    compiled: Callable[[str], Path], values: dict[str, object], folder_of_the_machine: int
) -> Iterator[Target]:
    """Planted: a node whose session servers have no cage and no filter, and inherit everything."""
    node = LocalNode(
        NULL_DRIVER,
        inherited=(folder_of_the_machine,),
        BUSBAR_FAILPOINT_NO_CAGES="1",
        BUSBAR_FAILPOINT_NO_SANDBOX="1",
        BUSBAR_FAILPOINT_KEEP_DESCRIPTORS="1",
        BUSBAR_FAILPOINT_NO_CONTROL_GROUPS="1",
    )
    yield Target(node, Attacker(node, compiled("attack_client")), values)
    node.stop()


@pytest.fixture(scope="module", params=RIGHTS)
def caged(
    request: pytest.FixtureRequest,
    compiled: Callable[[str], Path],
    values: dict[str, object],
    folder_of_the_machine: int,
) -> Iterator[Target]:
    node = LocalNode(
        NULL_DRIVER,
        inherited=(folder_of_the_machine,),
        BUSBAR_CAGE_MEMORY_BYTES=str(256 << 20),
        **RIGHTS[request.param],
    )
    yield Target(node, Attacker(node, compiled("attack_client")), values)
    node.stop()


LIMITS = {"memory of the machine", "threads of the machine"}


@pytest.mark.parametrize("attack", sorted(ATTACKS))
def test_attack_works_without_a_cage(exposed: Target, attack: str) -> None:
    assert exposed.result(attack) == 0


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_fails_in_a_cage(caged: Target, attack: str) -> None:
    node = caged.attacker.node
    if attack in LIMITS and not node.sessions()[0].isolation["cgroup"]:
        pytest.skip("no control group of this process permits groups inside it")
    assert caged.result(attack) != 0


def test_attacks_fail_with_the_system_calls_of_nvidias_driver(
    compiled: Callable[[str], Path], values: dict[str, object], folder_of_the_machine: int
) -> None:
    """Each in a session of its own, all at once. Control groups are the same for both drivers."""
    node = LocalNode(NVIDIA_NULL_DRIVER, inherited=(folder_of_the_machine,))
    target = Target(node, Attacker(node, compiled("attack_client")), values)
    try:
        attacks = [attack for attack in ATTACKS if attack not in LIMITS]
        programs = [target.attacker.start(target.command(attack)) for attack in attacks]
        results = [program.communicate(timeout=60)[0].split() for program in programs]
    finally:
        node.stop()
    worked = [a for a, result in zip(attacks, results, strict=True) if result in ([], ["0"])]
    assert worked == []
