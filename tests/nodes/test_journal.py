"""Removal of the paths of an installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes import journal as journals
from nodes.journal import Journal


def test_path_that_cannot_be_deleted_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "RUNTIME", tmp_path / "runtime")
    files = [tmp_path / "first", tmp_path / "last"]
    for path in files:
        path.touch()
    journal = Journal()
    journal.created = [str(files[0]), "/proc/version", str(files[1])]  # no user can delete it
    with pytest.raises(OSError, match="/proc/version"):
        journal.roll_back()
    assert not any(path.exists() for path in files)


def test_folders_that_systemd_has_moved_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With DynamicUser the folders of a unit are links to folders that only root can enter."""
    moved = []
    for variable in ("STATE", "RUNTIME"):
        folder = tmp_path / variable / "busbar"
        private = folder.parent / "private" / "busbar"
        private.mkdir(parents=True)
        (private / "key").touch()
        folder.symlink_to(Path("private") / "busbar")
        monkeypatch.setattr(journals, variable, folder)
        moved += [folder, private]
    journal = Journal()
    journal.created = [str(moved[0])]
    journal.roll_back()
    assert not any(path.exists() or path.is_symlink() for path in moved)


def test_folder_elsewhere_is_not_deleted_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "busbar", tmp_path / "elsewhere"
    monkeypatch.setattr(journals, "STATE", folder)
    monkeypatch.setattr(journals, "RUNTIME", tmp_path / "runtime")
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    folder.symlink_to(elsewhere)
    journal = Journal()
    journal.created = [str(folder)]
    journal.roll_back()
    assert not folder.is_symlink()
    assert (elsewhere / "file").exists()
