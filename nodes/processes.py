"""Processes that are kept alive: started again when they end by themselves, stopped in good order."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

STOP_SECONDS = 12.0
RESTART_SECONDS = 0.3
PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """If the supervisor is killed, nobody would restart its parts: they end too. Sessions do not."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class Part:
    """One process, restarted when it ends by itself."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    stop_signal: int = signal.SIGTERM
    folder: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    on_change: Callable[[], None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    self.command,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    preexec_fn=end_with_parent,
                    start_new_session=True,
                )
            self.starts += 1
            self.on_change()
            self.process.wait()
            self._stopping.wait(RESTART_SECONDS)

    def stop(self) -> None:
        self._stopping.set()
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
