"""`make dev`: the stack of `./run` with reload on changes, and the console with hot module reload.

The appliance restarts when a Python file under appliance/ changes, the agent when one under nodes/
changes. Vite serves the console over TLS with the appliance's certificate, since cookies and the
Origin check need the scheme https, and forwards the API to the appliance.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from deploy.ports import free_port
from deploy.supervisor import ROOT, Stack, banner, stop_event
from nodes.processes import SupervisedProcess
from nodes.top_level import exit_status_of

POLL_SECONDS = 0.5
CONSOLE_PORT = 5173
DATA = ROOT / "var" / "dev"


class Reloader:
    """Restarts a process when a Python file below one of its folders changes."""

    def __init__(self, part: SupervisedProcess, *folders: str) -> None:
        self._part, self._folders = part, [ROOT / folder for folder in folders]
        self._state = self._read()

    def poll(self) -> None:
        """End the process if a file was added, removed or modified; the supervisor restarts it."""
        state = self._read()
        changed = {path for path, _ in state ^ self._state}
        self._state = state
        if not changed or self._part.process is None:
            return
        print(f"{self._part.name}: restarting after a change of {min(changed).name}", flush=True)
        self._part.process.send_signal(signal.SIGTERM)

    def _read(self) -> set[tuple[Path, int]]:
        return {
            (path, path.stat().st_mtime_ns) for folder in self._folders for path in sources(folder)
        }


def sources(folder: Path) -> Iterator[Path]:
    """Yield the Python files below a folder that exist at this moment."""
    return (path for path in folder.rglob("*.py") if path.exists())


def console(stack: Stack, port: int) -> SupervisedProcess:
    """Return the Vite development server, not started."""
    environment = os.environ | {
        "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
        "BUSBAR_DEV_APPLIANCE": stack.url,
        "BUSBAR_DEV_CERTIFICATE": (stack.appliance_data / "server.pem").read_text(),
        "BUSBAR_DEV_KEY": (stack.appliance_data / "server.key").read_text(),
        "BUSBAR_DEV_PORT": str(port),
    }
    log = stack.logs / "console.log"
    return SupervisedProcess(
        "console", ["npm", "run", "dev"], environment, log, folder=ROOT / "frontend"
    )


def run(stack: Stack, stop: threading.Event) -> None:
    """Start everything and poll for changes until `stop` is set."""
    stack.start_appliance()
    stack.start_node()
    port = free_port(CONSOLE_PORT, stack.listen)
    vite = console(stack, port)
    vite.start()
    reloaders = [Reloader(stack.appliance, "appliance"), Reloader(stack.node.agent, "nodes")]
    print(banner(stack))
    print(f"  Console    https://{stack.advertise}:{port}   (hot module reload)", flush=True)
    try:
        while not stop.wait(POLL_SECONDS):
            for reloader in reloaders:
                reloader.poll()
    finally:
        vite.stop()


def main() -> None:
    stack = Stack(DATA)
    stop = stop_event()
    try:
        run(stack, stop)
    finally:
        stack.stop()


if __name__ == "__main__":
    sys.exit(exit_status_of("make dev", main))
