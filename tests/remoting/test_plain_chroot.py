"""A node in a plain chroot, as debootstrap makes it: its root folder is no mount point."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import BUILD
from tests.remoting.node import LocalNode

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and chroot need root")
ENTER = """
for folder in "$1"/*; do mount --rbind "/${folder##*/}" "$folder"; done
root=$1; shift
exec chroot "$root" "$@"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an ordinary folder with a folder or link for each one of this machine's root."""
    for path in Path("/").iterdir():
        if path.is_symlink():
            (tmp_path / path.name).symlink_to(path.readlink())
        elif path.is_dir():
            (tmp_path / path.name).mkdir()
    return tmp_path


def start_node(root: Path, **environment: Any) -> LocalNode:
    own_mounts = ["unshare", "--mount", "--propagation", "private"]
    return LocalNode(machine=[*own_mounts, "sh", "-c", ENTER, "sh", str(root)], **environment)


@pytest.fixture
def node(root: Path) -> Iterator[LocalNode]:
    node = start_node(root)
    yield node
    node.stop()


def root_of(node: LocalNode) -> os.stat_result:
    return Path(f"/proc/{node.spawner.pid}/root/.").stat()


def test_program_in_a_plain_chroot_is_right_and_caged(node: LocalNode) -> None:
    done = subprocess.run(
        [BUILD / "demo" / "gpu_demo", "add"],
        env=node.remote_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    layers = node.control.sessions().isolation
    assert {"file_system", "network", "processes", "seccomp"} <= set(layers)
    assert os.path.samestat(root_of(node), Path(node.machine[-1]).stat())


def test_spawner_that_cannot_change_its_root_stays_in_the_chroot(root: Path) -> None:
    """Else it would go on, without cages, in the file system around the chroot."""
    node = start_node(root, BUSBAR_FAILPOINT_NO_PIVOT="1")
    try:
        assert os.path.samestat(root_of(node), root.stat())
        assert "file_system" not in node.control.sessions().isolation
    finally:
        node.stop()
