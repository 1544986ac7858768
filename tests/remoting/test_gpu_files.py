"""A cage shows the GPUs of its allocation, and no others."""

from __future__ import annotations

import dataclasses
import errno
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodes.launcher_control import Partition
from tests.remoting.attacker import RIGHTS, Attacker
from tests.remoting.node import NULL_DRIVER, NULL_DRIVER_GPUS, LocalNode
from tests.remoting.nvidia_machine import nvidia_machine, pci_address
from tests.remoting.session_servers import wait_for_session_servers

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can make device files")
FIRST, SECOND, THIRD, WITHOUT_MINOR = NULL_DRIVER_GPUS[:4]
MINORS = {FIRST: 2, SECOND: 0, THIRD: 1, WITHOUT_MINOR: None}
FOLDERS = ("/sys/bus/pci/devices", "/sys/devices/pci0000:00")


def partitions(*gpus: uuid.UUID) -> tuple[Partition, ...]:
    return tuple(Partition(gpu, 1 << 30, 50) for gpu in gpus)


@contextmanager
def attacker_with(
    gpus: tuple[uuid.UUID, ...], folder: Path, client: Path, right: str = "own", **environment: str
) -> Iterator[Attacker]:
    """Yield an attacker whose allocation has some of the machine's GPUs."""
    options = RIGHTS[right] | environment | {"NULL_DRIVER_DEVICES": str(len(MINORS))}
    machine = nvidia_machine(folder, MINORS)
    node = LocalNode(NULL_DRIVER, partitions=partitions(*gpus), machine=machine, **options)
    try:
        yield Attacker(node, client)
    finally:
        node.stop()


def shown_gpus(attacker: Attacker) -> set[int]:
    """Return the minor numbers of the GPUs that a session can open."""
    numbers = range(len(MINORS))
    results = attacker.results(*(f"write /dev/nvidia{n}" for n in numbers))
    assert set(results) <= {0, errno.EROFS, errno.EACCES}
    return {n for n in numbers if results[n] == 0}


@pytest.mark.parametrize("right", RIGHTS)
def test_session_sees_the_gpus_of_its_allocation(
    right: str, tmp_path: Path, compiled: Callable[[str], Path]
) -> None:
    with attacker_with((FIRST, THIRD), tmp_path, compiled("attack_client"), right) as attacker:
        assert shown_gpus(attacker) == {1, 2}
        assert attacker.results("read /dev/nvidiactl", "read /dev/nvidia0") == [0, errno.ENOENT]


def test_session_without_a_cage_sees_all_gpus(
    tmp_path: Path, compiled: Callable[[str], Path]
) -> None:
    """Planted: the tests of this file notice GPUs that are shown."""
    planted = {"BUSBAR_FAILPOINT_NO_CAGES": "1", "BUSBAR_FAILPOINT_NO_LANDLOCK": "1"}
    with attacker_with((FIRST,), tmp_path, compiled("attack_client"), **planted) as attacker:
        assert shown_gpus(attacker) == {0, 1, 2, 3}
        resource = f"{FOLDERS[0]}/{pci_address(1)}/resource0"
        assert attacker.results(f"read {resource}") == [0]


def test_gpu_without_a_minor_number_is_not_shown(
    tmp_path: Path, compiled: Callable[[str], Path]
) -> None:
    gpus = (SECOND, WITHOUT_MINOR)
    with attacker_with(gpus, tmp_path, compiled("attack_client")) as attacker:
        assert shown_gpus(attacker) == {0}
        log = (attacker.node.folder / "launcher.log").read_text()
    assert f"GPU-{WITHOUT_MINOR}" in log and "turn MIG off" in log
    assert f"GPU-{SECOND}" not in log


@pytest.mark.parametrize("folder", FOLDERS)
def test_session_reads_facts_of_its_pci_devices_only(
    folder: str, tmp_path: Path, compiled: Callable[[str], Path]
) -> None:
    own, other = f"{folder}/{pci_address(0)}", f"{folder}/{pci_address(1)}"
    with attacker_with((FIRST,), tmp_path, compiled("attack_client")) as attacker:
        assert attacker.results(f"read {own}/vendor", f"read {own}/numa_node") == [0, 0]
        hidden = [f"{own}/{name}" for name in ("resource", "resource0", "rom", "remove", "reset")]
        hidden.append(f"{other}/vendor")
        assert set(attacker.results(*(f"read {path}" for path in hidden))) == {errno.ENOENT}
        assert attacker.results(f"write {own}/vendor")[0] in {errno.EROFS, errno.EACCES}


def test_allocation_takes_a_spare_of_its_own_gpus(
    tmp_path: Path, compiled: Callable[[str], Path]
) -> None:
    with attacker_with((FIRST,), tmp_path, compiled("attack_client")) as attacker:
        node = attacker.node
        first = node.grants()
        node.allocation_id, node.partitions = uuid.uuid4(), partitions(SECOND, THIRD)
        both = dataclasses.replace(first, grants=(*first.grants, *node.grants().grants))
        node.control.apply(both)
        wait_for_session_servers(node, 3)
        assert [shown_gpus(attacker) for _ in range(4)] == [{0, 1}] * 4
        node.allocation_id, node.partitions = first.grants[0].allocation_id, partitions(FIRST)
        assert [shown_gpus(attacker) for _ in range(2)] == [{2}] * 2


def test_spares_of_other_gpus_end(tmp_path: Path, compiled: Callable[[str], Path]) -> None:
    with attacker_with((FIRST, SECOND, THIRD), tmp_path, compiled("attack_client")) as attacker:
        node = attacker.node
        wait_for_session_servers(node, 3)
        node.partitions = partitions(SECOND)
        node.grant()
        wait_for_session_servers(node, 1)
        assert shown_gpus(attacker) == {0}
