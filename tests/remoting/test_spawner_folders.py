"""Folders that another user can change, opened by a spawner with more rights."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.remoting.attacker import RIGHTS, Attacker
from tests.remoting.node import NULL_DRIVER, NULL_DRIVER_GPUS, SOFTGPU, LocalNode

pytestmark = pytest.mark.skipif(
    os.getuid() != 0, reason="only root can start a spawner with the rights of its unit"
)


@pytest.fixture
def attacker(compiled: Callable[[str], Path]) -> Iterator[Attacker]:
    node = LocalNode(NULL_DRIVER, **RIGHTS["unit"])
    yield Attacker(node, compiled("attack_client"))
    node.stop()


@pytest.fixture
def folder_of_root() -> Iterator[Path]:
    """A folder outside of the node. All may write it, so that a mistake shows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def log_of(node: LocalNode) -> str:
    return (node.folder / "launcher.log").read_text()


def test_session_sees_no_folder_behind_a_link_of_the_launcher(
    attacker: Attacker, folder_of_root: Path
) -> None:
    node = attacker.node
    (node.runtime / "images" / node.tenant_id.hex).symlink_to(folder_of_root)
    assert attacker.results("write /images/tenant/planted") == []
    assert list(folder_of_root.iterdir()) == []
    assert "the folders of its tenant cannot be shown" in log_of(node)


def test_session_sees_no_folder_below_a_link_of_the_launcher(
    attacker: Attacker, folder_of_root: Path
) -> None:
    images = attacker.node.runtime / "images"
    shutil.rmtree(images)
    images.symlink_to(folder_of_root)
    assert attacker.results("write /images/tenant/planted") == []
    assert list(folder_of_root.iterdir()) == []


def test_session_sees_no_folder_of_another_user(attacker: Attacker) -> None:
    images = attacker.node.runtime / "images" / attacker.node.tenant_id.hex
    images.mkdir()
    assert images.stat().st_uid == os.getuid() and attacker.results("call 39") == []


@pytest.fixture
def with_compiler(tmp_path: Path) -> Path:
    """Return a driver whose sessions have a compiler, as those of software GPUs have."""
    driver = tmp_path / "driver" / "libcuda.so.1"
    driver.parent.mkdir()
    shutil.copy(NULL_DRIVER, driver)
    shutil.copy(SOFTGPU / "softgpu-compiler", driver.parent)
    return driver


@pytest.mark.parametrize("planted", ["link", "other owner", "others can write"])
def test_folder_of_the_devices_that_others_can_change_is_not_used(
    with_compiler: Path, compiled: Callable[[str], Path], tmp_path: Path, planted: str
) -> None:
    target, devices = tmp_path / "target", tmp_path / "devices"
    target.mkdir(mode=0o700)
    if planted == "link":
        devices.symlink_to(target)
    else:
        devices.mkdir()
        devices.chmod(0o777 if planted == "others can write" else 0o700)
        os.chown(devices, 65534 if planted == "other owner" else 0, 0)
    node = LocalNode(with_compiler, NULL_DRIVER_GPUS, BUSBAR_SOFTGPU_DIR=str(devices))
    try:
        assert Attacker(node, compiled("attack_client")).results("call 39") == []
        assert f"remove {devices} or set BUSBAR_SOFTGPU_DIR" in log_of(node)
    finally:
        node.stop()
    assert target.stat().st_mode & 0o777 == 0o700 and list(target.iterdir()) == []
