"""Lock of a data folder: one stack at a time uses it. `run` reads it before set-up."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

RETRY_SECONDS = 0.5
"""`run` holds the lock for a moment while it checks it."""


class RunLock:
    """Exclusive lock on `run.lock`, which holds the pid of its owner and the URL of the console."""

    def __init__(self, data: Path) -> None:
        """Take the lock. Raises SystemExit with the owner's pid and URL if another stack has it."""
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = (data / "run.lock").open("a+")
        if not self._is_taken_in(RETRY_SECONDS):
            self._file.seek(0)
            pid, _, url = self._file.read().strip().partition(" ")
            raise SystemExit(
                f"Busbar is already running: pid {pid or 'unknown'}, {url or 'starting'} "
                f"(data folder {data}). Stop it with: kill {pid}"
            )
        self.publish("")

    def _is_taken_in(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return False
            time.sleep(0.02)

    def publish(self, url: str) -> None:
        """Write the pid of this process and the URL for commands that find the lock taken."""
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{os.getpid()} {url}\n")
        self._file.flush()

    def release(self) -> None:
        self._file.close()
