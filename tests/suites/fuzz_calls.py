"""Random calls of every exported function through remoting, with bad arguments.

The program of tests/remoting/calls executes them, each child process ten thousand; a crash names
its function.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from tests.remoting.calls import program, results
from tests.remoting.node import LocalNode

CALLS = 10_000_000
BATCH = 100_000


def fuzz(seconds: int) -> tuple[int, str]:
    """Execute calls for a time, or ten million without one. Return their number and a problem."""
    calls = program.build(Path(tempfile.mkdtemp(prefix="busbar-fuzz-calls-")))
    node, done, end = LocalNode(), 0, time.monotonic() + seconds
    found: list[str] = []
    while not found and (time.monotonic() < end if seconds else done < CALLS):
        command = [str(calls), "fuzz", str(done), str(BATCH)]
        env = node.remote_environment()
        run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        found = results.trouble(run.stdout)
        done += BATCH
    node.stop()
    print(f"calls: {done} calls", flush=True)
    return done, f"calls: {found}" if found else ""


def main() -> None:
    _, problem = fuzz(0)
    if problem:
        raise SystemExit(problem)


if __name__ == "__main__":
    main()
