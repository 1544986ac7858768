"""Dependency groups of pyproject.toml: their export from uv.lock, and the check of the lock."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("deploy/setup.sh", ".ci/checks/dependencies", "pyproject.toml", "uv.lock")
PROGRAMS = Path(sys.executable).parent


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A checkout whose environment has Python and uv."""
    for name in (*COPIED, "requirements.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "uv"):
        (tmp_path / ".venv" / "bin" / name).symlink_to(PROGRAMS / name)
    (tmp_path / "build" / "log").mkdir(parents=True)
    return tmp_path


def run(clone: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"ROOT": str(clone), "PATH": f"{clone}/.venv/bin:{os.environ['PATH']}"}
    return subprocess.run(command, cwd=clone, env=env, capture_output=True, text=True, check=False)


def export(clone: Path) -> dict[str, str]:
    """Export the groups. Return the content of their files."""
    done = run(clone, "/bin/sh", "-euc", '. "$ROOT/deploy/setup.sh"; export_groups')
    assert done.returncode == 0, done.stderr
    return {path.stem: path.read_text() for path in (clone / "build/groups").glob("*.txt")}


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_each_group_has_a_file_with_hashes(clone: Path) -> None:
    groups = tomllib.loads((clone / "pyproject.toml").read_text())["dependency-groups"]
    files = export(clone) | {"appliance": (clone / "requirements.txt").read_text()}
    assert set(files) == set(groups)
    for group, text in files.items():
        pinned = [line for line in text.splitlines() if "==" in line and line[0] not in " #"]
        assert len(pinned) >= len(groups[group]), group
        assert all(line.endswith("\\") for line in pinned), group


def test_change_of_one_group_changes_no_file_of_another(clone: Path) -> None:
    before = export(clone)
    wheel = re.search(r"--hash=(\S+)", before["packages"].partition("ziglang==")[2])
    assert wheel
    replace(clone / "uv.lock", wheel[1], "sha256:" + "0" * 64)
    after = export(clone)
    assert {group for group in after if after[group] != before[group]} == {"packages"}


def test_group_is_installed_only_when_its_versions_have_changed(clone: Path) -> None:
    export(clone)
    install = (
        '. "$ROOT/deploy/setup.sh"; say() { :; }; install_packages_of() { echo "$2"; };'
        "install_groups demo packages"
    )
    groups = [run(clone, "/bin/sh", "-euc", install).stdout.split() for _ in range(2)]
    assert groups == [["appliance", "demo", "packages"], []]
    (clone / "build" / "groups" / "demo.txt").write_text("changed")
    assert run(clone, "/bin/sh", "-euc", install).stdout.split() == ["demo"]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("pyproject.toml", '"segno",', '"segno>=1",', "uv.lock does not belong to pyproject.toml"),
        ("uv.lock", "https://files.pythonhosted.org", "https://mirror.invalid", "is not public"),
        ("requirements.txt", "segno==", "segno>=", "requirements.txt does not belong to uv.lock"),
    ],
)
def test_stale_or_private_lock_fails_the_check(
    clone: Path, file: str, old: str, new: str, message: str
) -> None:
    assert run(clone, ".ci/checks/dependencies").returncode == 0
    replace(clone / file, old, new)
    done = run(clone, ".ci/checks/dependencies")
    assert done.returncode == 1
    assert message in done.stderr and "deploy/lock.sh" in done.stderr
