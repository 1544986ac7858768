"""Programs that `busbar run --detach` started on this machine.

Each has a folder, named like its allocation, with its output, its exit code and a file that its
supervisor keeps locked. The lock tells whether it runs, so a pid that was used again is never
signalled. At most MAX_FOLDERS are kept.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remoting.cli.api import EXIT_NOT_FOUND, ApiError

MAX_FOLDERS = 100
POLL_SECONDS = 0.2
FAILED_SUPERVISOR = 1


def runs_folder() -> Path:
    """Return the folder of the runs: busbar/runs below XDG_STATE_HOME."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return base / "busbar" / "runs"


@dataclass(frozen=True)
class Run:
    folder: Path

    @property
    def id(self) -> str:
        """Id of the allocation."""
        return self.folder.name

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def description(self) -> dict[str, Any]:
        """Return command, pid of the supervisor and start; empty if it is not complete."""
        try:
            described: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        except (OSError, ValueError):
            return {}
        return described

    def is_running(self) -> bool:
        try:
            descriptor = os.open(self.folder / "lock", os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def exit_code(self) -> int | None:
        """Return the exit code, or None while the program runs or if its supervisor was killed."""
        try:
            return int((self.folder / "exit_code").read_text())
        except (OSError, ValueError):
            return None

    def state(self) -> str:
        if self.is_running():
            return "running"
        code = self.exit_code()
        return "killed" if code is None else f"exited {code}"


def all_runs() -> list[Run]:
    """Return the runs on this machine, newest first."""
    try:
        folders = [f for f in runs_folder().iterdir() if f.is_dir()]
    except OSError:
        return []
    return [Run(f) for f in sorted(folders, key=lambda f: f.stat().st_mtime, reverse=True)]


def find_run(run_id: str) -> Run:
    """Return the run whose id begins or ends with a text; the newest one for an empty text."""
    runs = all_runs()
    found = [r for r in runs if r.id.startswith(run_id) or r.id.endswith(run_id)]
    if run_id and len(found) > 1:
        raise ApiError(f"{run_id} names {len(found)} runs. Give the whole id: busbar runs")
    if not found:
        raise ApiError("No such run on this machine. List them with: busbar runs", EXIT_NOT_FOUND)
    return found[0]


def start(run_id: str, command: list[str], supervised: Callable[[], int]) -> Run:
    """Execute `supervised` in a process of its own that outlives this one.

    Its output goes to the log. Must be called without other threads. Raises ApiError if the
    folder cannot be written.
    """
    run = Run(runs_folder() / run_id)
    try:
        run.folder.mkdir(parents=True, mode=0o700)
        lock = os.open(run.folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        log = os.open(run.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    except OSError as error:
        raise ApiError(
            f"Cannot write {run.folder}: {error.strerror}. Set XDG_STATE_HOME to a folder that you"
            " can write."
        ) from None
    fcntl.flock(lock, fcntl.LOCK_EX)
    sys.stdout.flush()
    if os.fork() == 0:
        supervise_detached(run, command, log, supervised)
    os.close(lock)  # the child keeps the lock
    os.close(log)
    remove_old_runs()
    return run


def supervise_detached(
    run: Run, command: list[str], log: int, supervised: Callable[[], int]
) -> None:
    """Leave the terminal, run the program, write its exit code and end this process."""
    code = FAILED_SUPERVISOR
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for descriptor, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, target)
        described = {"command": command, "pid": os.getpid(), "started_at": time.time()}
        write_whole(run.folder / "run.json", json.dumps(described))
        code = supervised()
    except ApiError as error:
        print(f"busbar: {error}", file=sys.stderr)
        code = error.exit_code
    finally:
        write_whole(run.folder / "exit_code", str(code))
        sys.stderr.flush()
        os._exit(code)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that readers see all of it or nothing."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def remove_old_runs() -> None:
    for run in all_runs()[MAX_FOLDERS:]:
        if not run.is_running():
            shutil.rmtree(run.folder, ignore_errors=True)


def print_log(run: Run, *, follow: bool) -> None:
    """Copy the output to standard output; with `follow`, until the program has ended."""
    with run.log.open("rb") as log:
        while True:
            ended = not run.is_running()  # before reading: nothing is written after the end
            while content := log.read(1 << 16):
                sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
            if ended or not follow:
                return
            time.sleep(POLL_SECONDS)


def stop(run: Run, grace_seconds: float) -> bool:
    """End a program with SIGTERM and, after the grace, SIGKILL. Return False for the latter.

    SIGTERM goes to the supervisor, which passes it on; SIGKILL goes to the process group of both.
    """
    if not run.is_running():
        return True
    pid = run.description().get("pid")
    if pid is None:
        raise ApiError("The program is starting. Try again.")
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + grace_seconds
    while run.is_running():
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
            return False
        time.sleep(POLL_SECONDS)
    return True
