"""A private folder below the data folder for the files of one backup, and the lock of backups."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.backups.errors import BackupError

PREFIX = "backup-work-"
LOCK = "backup.lock"


@contextmanager
def working_folder(data: Path) -> Iterator[Path]:
    """Yield an empty folder that is deleted at the end. Raises BackupError during another backup.

    What a killed backup left behind is deleted, too.
    """
    with (data / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError("Another backup is being made; wait for its end.") from None
        for old in data.glob(PREFIX + "*"):
            shutil.rmtree(old, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=data))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
