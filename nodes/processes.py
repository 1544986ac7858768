"""Supervision of child processes: restart after an unexpected end, orderly stop."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nodes.log_rotation import rotate_if_large

log = logging.getLogger("supervisor")

STOP_SECONDS = 12.0
ROTATION_SECONDS = 1.0
"""Interval at which the size of a log is checked."""
RESTART_SECONDS = 0.3
PR_SET_PDEATHSIG = 1


def terminate_with_parent() -> None:
    """Let the kernel send SIGTERM to this process when its supervisor dies.

    Session servers are not affected: they do not call this function.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class SupervisedProcess:
    """A child process that is restarted when it ends by itself."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    stop_signal: int = signal.SIGTERM
    folder: Path | None = None
    in_child: Callable[[], None] = field(default=lambda: None)
    """Called in each new process before it executes the command."""
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    on_change: Callable[[], None] = field(default=lambda: None)
    """Called on the supervising thread after each start."""

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _prepare_child(self) -> None:
        self.in_child()
        terminate_with_parent()

    def _supervise(self) -> None:
        failure = ""
        while not self._stopping.is_set():
            try:
                self.process = self._start_child()
            except (OSError, subprocess.SubprocessError) as error:
                if str(error) != failure:
                    log.warning("supervisor: %s not started, will retry (%s)", self.name, error)
                failure = str(error)
            else:
                failure = ""
                self.starts += 1
                self.on_change()
                self._wait_for(self.process)
            self._stopping.wait(RESTART_SECONDS)

    def _start_child(self) -> subprocess.Popen[bytes]:
        """Raises OSError or SubprocessError, such as without memory or space on the disk."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.command,
                env=self.environment,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=self._prepare_child,
                start_new_session=True,
            )

    def _wait_for(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of the process. Its log is rotated meanwhile."""
        while True:
            rotate_if_large(self.log)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ROTATION_SECONDS)
                return

    def stop(self) -> None:
        """Send the stop signal and wait. Kills the process after 12 s. Blocks."""
        self._stopping.set()
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
