"""A node whose disk is full: nothing is lost, and new grants are refused until there is space."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodes.launcher_control import LauncherError
from tests.remoting.attacker import Attacker
from tests.remoting.node import NULL_DRIVER, LocalNode

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root mounts a small file system")


@pytest.fixture
def node() -> Iterator[LocalNode]:
    node = LocalNode(NULL_DRIVER)
    yield node
    node.stop()


@pytest.fixture
def full_disk(node: LocalNode) -> Iterator[Path]:
    """Mount a disk for ledgers that has no space for one."""
    folder = node.runtime / "ledgers"
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_grant_without_space_for_its_ledger_is_refused_alone(
    node: LocalNode, full_disk: Path, compiled: Callable[[str], Path]
) -> None:
    attacker = Attacker(node, compiled("attack_client"))
    generation = node.control.sessions().generation
    granted = node.grants()
    other = replace(granted.grants[0], allocation_id=uuid.uuid4())
    both = replace(granted, generation=generation + 1, grants=(*granted.grants, other))
    with pytest.raises(LauncherError):
        node.control.apply(both)
    assert node.control.sessions().generation == generation
    assert attacker.results("call 39") == [0], "the allocation with a ledger goes on"
    subprocess.run(["mount", "-o", "remount,size=1m", str(full_disk)], check=True)
    node.control.apply(both)
    assert node.control.sessions().generation == generation + 1


def test_charges_are_written_on_a_full_disk(
    node: LocalNode, compiled: Callable[[str], Path]
) -> None:
    """The ledger has all of its space from the beginning."""
    (ledger,) = (node.runtime / "ledgers").iterdir()
    assert ledger.stat().st_blocks * 512 >= ledger.stat().st_size > 0
