"""Journal of an installation: the paths that it created, for rollback and removal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from nodes.paths import HOME, JOURNAL, RUNTIME, STATE


class Journal:
    """Created paths in order. Each is on disk before it is created."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.committed = False
        """Return True if the installation is complete."""

    @classmethod
    def load(cls) -> Journal | None:
        """Return the journal of this machine, or None if there is none."""
        try:
            content = json.loads(JOURNAL.read_text())
        except (OSError, ValueError):
            return None
        journal = cls()
        journal.created = list(content["made"])
        journal.committed = bool(content["committed"])
        return journal

    def create_home(self) -> None:
        """Create HOME with its missing parents, and the journal in it."""
        missing = [p for p in (HOME, *HOME.parents) if not p.exists()]
        self.created = [str(p) for p in reversed(missing)]
        for p in reversed(missing):
            p.mkdir(mode=0o755)
        self.save()

    def save(self) -> None:
        temporary = JOURNAL.with_suffix(".new")
        temporary.write_text(json.dumps({"made": self.created, "committed": self.committed}))
        temporary.replace(JOURNAL)

    def record(self, path: Path) -> None:
        if str(path) not in self.created:
            self.created.append(str(path))
            self.save()

    def create_folder(self, path: Path, mode: int = 0o755) -> None:
        """Create a folder and its missing parents."""
        missing = [p for p in (path, *path.parents) if not p.exists()]
        for p in reversed(missing):
            self.record(p)
            p.mkdir(mode=mode if p == path else 0o755)

    def create_file(self, path: Path, text: str, mode: int = 0o644) -> None:
        self.record(path)
        path.write_text(text)
        path.chmod(mode)

    def roll_back(self) -> None:
        """Delete everything that was created, last path first.

        HOME, STATE and RUNTIME are deleted with their content. Another folder is deleted only if
        it is empty, because other software may use it. A path that cannot be deleted does not keep
        the others.

        Raises:
            OSError: A path could not be deleted.
        """
        errors: list[OSError] = []
        for name in reversed(self.created):
            try:
                delete(Path(name))
            except OSError as error:
                errors.append(error)
        delete_with_content(RUNTIME)
        if errors:
            raise errors[0]


def delete(path: Path) -> None:
    if path in (HOME, STATE):
        delete_with_content(path)
    elif path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir() and not any(path.iterdir()):
        path.rmdir()


def delete_with_content(folder: Path) -> None:
    """Delete a folder. systemd moves those of a unit with DynamicUser, and leaves a link."""
    private = folder.parent / "private" / folder.name
    if folder.is_symlink():
        if folder.resolve() == private.resolve():
            shutil.rmtree(private, ignore_errors=True)
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)
