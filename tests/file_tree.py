"""The files of a machine, to compare before and after."""

from __future__ import annotations

import os
from pathlib import Path

Entry = tuple[int, int, int, str]
KERNEL = ("proc", "sys", "dev")


def tree(root: Path) -> dict[str, Entry]:
    """Return mode, size, time of change and link target of every file.

    Of folders only the mode is compared.
    """
    found = {}
    for folder, folders, files in os.walk(root):
        if folder == str(root):
            folders[:] = [f for f in folders if f not in KERNEL]
        for name in (*folders, *files):
            path = Path(folder) / name
            try:
                found[str(path.relative_to(root))] = entry(path)
            except FileNotFoundError:
                continue
    return found


def entry(path: Path) -> Entry:
    s = path.lstat()
    link = os.readlink(path) if path.is_symlink() else ""
    is_folder = path.is_dir() and not link
    return s.st_mode, 0 if is_folder else s.st_size, 0 if is_folder else s.st_mtime_ns, link
