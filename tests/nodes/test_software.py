"""Replacement of a node's software by a newer version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nodes import installation, software
from nodes import journal as journals
from nodes.errors import NodeError
from nodes.service import NodeService


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setattr(software, "HOME", home)
    monkeypatch.setattr(software, "FRESH", home / "new")
    monkeypatch.setattr(software, "OLD", home / "old")
    home.mkdir()
    software.unpack(bundle(tmp_path / "first", "first"), home)
    return home


def bundle(folder: Path, version: str) -> Path:
    """Return a bundle whose programs print a version, without wheels."""
    (folder / "nodes").mkdir(parents=True)
    (folder / "nodes" / "version.py").write_text(version)
    for name in ("bin/busbar-spawner", "bin/busbar-launcher", "bin/busbar-session", "softgpu/x"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\necho {version}\n")
    (folder / "digest").write_text(version)
    return folder


def versions(home: Path) -> set[str]:
    texts = [(home / part).read_text() for part in ("digest", "lib/nodes/version.py")]
    programs = (home / "bin" / "busbar-launcher", home / "softgpu" / "x")
    return {*texts, *(p.read_text().split()[-1] for p in programs)}


def unpack_second(home: Path) -> None:
    shutil.rmtree(home / "new", ignore_errors=True)
    (home / "new").mkdir()
    folder = home.parent / "second"
    software.unpack(folder if folder.exists() else bundle(folder, "second"), home / "new")


def test_replaced_software_is_the_new_one(home: Path) -> None:
    unpack_second(home)
    software.replace()
    software.complete()
    assert versions(home) == {"second"}
    assert {p.name for p in home.iterdir()} == {*software.PARTS, software.DIGEST}


@pytest.mark.parametrize("interrupted", range(2 * len(software.PARTS)))
def test_interrupted_replacement_is_completed(
    home: Path, monkeypatch: pytest.MonkeyPatch, interrupted: int
) -> None:
    unpack_second(home)
    rename, left = Path.rename, [None] * interrupted

    def fail_at_last(path: Path, target: Path) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_at_last)
    with pytest.raises(KeyboardInterrupt):
        software.replace()
    monkeypatch.setattr(Path, "rename", rename)
    unpack_second(home)
    software.replace()
    software.complete()
    assert versions(home) == {"second"}


@pytest.fixture
def installed(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An enrolled node of the first version. The bundles lack wheels, so no program is run."""
    for name, file in (("SETTINGS", "service.json"), ("COMMAND", "busbar-node")):
        monkeypatch.setattr(installation, name, home / file)
    monkeypatch.setattr(journals, "JOURNAL", home / "journal.json")
    (home / "journal.json").write_text(json.dumps({"made": [str(home)], "committed": True}))
    monkeypatch.setattr(software, "run_programs_once", lambda _: None)
    monkeypatch.setattr(installation, "has_systemd", lambda: False)
    options = {"software_gpus": 0, "addresses": [], "data_port": NodeService.port}
    installation.node_service(options).save(home / "service.json")
    return home


def test_upgrade_that_fails_at_the_restart_is_not_taken_for_complete(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible upgrades while the digest differs from that of the appliance."""
    second = bundle(installed.parent / "second", "second")

    def fail() -> None:
        raise NodeError("The node still runs its earlier version.")

    monkeypatch.setattr(installation, "restart_if_enabled", fail)
    with pytest.raises(NodeError, match="earlier version"):
        installation.upgrade(second)
    assert versions(installed) == {"first", "second"}
    assert (installed / "digest").read_text() == "first"

    monkeypatch.setattr(installation, "restart_if_enabled", lambda: None)
    assert installation.upgrade(second)
    assert versions(installed) == {"second"}


def test_folder_without_digest_is_not_a_bundle(home: Path) -> None:
    with pytest.raises(NodeError, match="lib is not the folder of an unpacked bundle"):
        software.unpack_beside(home / "lib")
    assert versions(home) == {"first"}


def test_software_that_does_not_run_is_not_kept(home: Path) -> None:
    """The bundle has no wheels, so the agent cannot be imported."""
    with pytest.raises(NodeError, match=r"(?s)does not run on this machine: .*ModuleNotFoundError"):
        software.unpack_beside(bundle(home.parent / "second", "second"))
    assert versions(home) == {"first"}
    assert {p.name for p in home.iterdir()} == {*software.PARTS, software.DIGEST}
