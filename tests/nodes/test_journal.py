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
