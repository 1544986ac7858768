"""Root gives the folders of a node to an unprivileged user who may change them meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nodes.service import UNPRIVILEGED_ID, give_away

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="changes owners of files: run ./test as root, as CI does"
)


def owner(path: Path) -> int:
    return path.lstat().st_uid


def make_tree(folder: Path) -> tuple[Path, Path]:
    """Return the folder of a node and a file of root outside of it."""
    state, outside = folder / "state", folder / "outside"
    (state / "keys").mkdir(parents=True)
    (state / "keys" / "shadow").touch()
    outside.mkdir()
    (outside / "shadow").touch()
    return state, outside / "shadow"


def test_everything_in_the_folder_changes_its_owner(tmp_path: Path) -> None:
    state, outside = make_tree(tmp_path)
    give_away(state, UNPRIVILEGED_ID)
    given = (state, state / "keys", state / "keys" / "shadow")
    assert [owner(path) for path in given] == [UNPRIVILEGED_ID] * 3
    assert owner(outside) == 0


def test_links_do_not_lead_outside(tmp_path: Path) -> None:
    state, outside = make_tree(tmp_path)
    (state / "file-link").symlink_to(outside)
    (state / "folder-link").symlink_to(outside.parent)
    (state / "hard-link").hardlink_to(outside)
    give_away(state, UNPRIVILEGED_ID)
    assert (owner(outside), owner(outside.parent)) == (0, 0)


def test_a_folder_that_becomes_a_link_does_not_lead_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user replaces a folder by a link after root has entered it."""
    state, outside = make_tree(tmp_path)
    change_owner = os.chown

    def replace_first(path: Any, *rest: Any, **more: Any) -> None:
        keys = state / "keys"
        if not keys.is_symlink() and str(path).endswith("shadow"):
            keys.rename(state / "moved")
            keys.symlink_to(outside.parent)
        change_owner(path, *rest, **more)

    monkeypatch.setattr(os, "chown", replace_first)
    give_away(state, UNPRIVILEGED_ID)
    assert (state / "keys").is_symlink()
    assert owner(outside) == 0


def test_file_that_its_owner_deletes_meanwhile_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, _ = make_tree(tmp_path)
    for name in ("first", "second", "third"):
        (state / name).touch()
    change_owner = os.chown
    deleted: list[str] = []

    def delete_first(path: Any, *rest: Any, **more: Any) -> None:
        if not deleted and isinstance(path, str) and (state / path).is_file():
            (state / path).unlink()
            deleted.append(path)
        change_owner(path, *rest, **more)

    monkeypatch.setattr(os, "chown", delete_first)
    give_away(state, UNPRIVILEGED_ID)
    assert len(deleted) == 1
    left = (state, *state.rglob("*"))
    assert {owner(path) for path in left} == {UNPRIVILEGED_ID}
