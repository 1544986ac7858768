"""Random calls of every exported function with bad arguments, through remoting and directly.

The program of tests/remoting/calls executes them, each batch in one process; a crash names its
function. Every tenth batch runs directly on the software GPU, whose crash would end a session.
Beside a neighbour, a second allocation keeps the GPU of the remoted batches busy.
"""

from __future__ import annotations

import itertools
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from remoting.bench.shared_node import SharedNode
from tests.remoting.calls import program, results
from tests.remoting.neighbour import busy_while
from tests.remoting.node import LocalNode, direct_environment

CALLS = 10_000_000
"""Through remoting, without a time."""
BATCH = 50_000
LOST = "LOST to error"
MOST_LOST = 0.1
"""Share of the processes that may end early: more would say that sessions are lost."""
FEW_LOST = 1.0
"""Ten seconds have five batches, of which so many end early by chance."""
DIRECT_EVERY = 10
WORKERS = 2


class Batches:
    """Batches that the workers take until the calls are done, the time is over or one fails."""

    def __init__(self, calls: Path, node: LocalNode, seconds: int) -> None:
        self.calls, self.seconds = calls, seconds
        self.start = time.monotonic()
        self.remoted = node.remote_environment()
        self.direct = direct_environment(node.folder / "direct")
        self.numbers = itertools.count()
        self.done = {"remoted": 0, "direct": 0}
        self.lost = 0
        """Child processes that ended early, because an error had ended all contexts."""
        self.problems: list[str] = []
        self.lock = threading.Lock()

    def finished(self) -> bool:
        if self.problems:
            return True
        if self.seconds:
            return time.monotonic() >= self.start + self.seconds
        return self.done["remoted"] >= CALLS

    def run_one(self) -> None:
        number = next(self.numbers)
        mode = "direct" if number % DIRECT_EVERY == DIRECT_EVERY - 1 else "remoted"
        env = self.direct if mode == "direct" else self.remoted
        command = [str(self.calls), "fuzz", str(number * BATCH), str(BATCH)]
        run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        trouble = results.trouble(run.stdout)
        if run.returncode and not trouble:
            trouble = [f"exit status {run.returncode}: {run.stderr[-2000:]}"]
        with self.lock:
            self.done[mode] += BATCH
            self.lost += run.stdout.count(LOST)
            self.problems += [f"{mode}, seed {number * BATCH}: {line}" for line in trouble]

    def work(self) -> None:
        while not self.finished():
            self.run_one()


def fuzz(seconds: int, *, beside: bool = False) -> tuple[int, str]:
    """Execute calls for a time, or ten million without one. Return their number and a problem."""
    node = SharedNode()
    with busy_while(node) if beside else nullcontext():
        batches = Batches(program.build(node.folder), node, seconds)
        with ThreadPoolExecutor(WORKERS) as workers:
            for worker in [workers.submit(batches.work) for _ in range(WORKERS)]:
                worker.result()
    node.stop()
    name = "calls beside a neighbour" if beside else "calls"
    done, took = batches.done, time.monotonic() - batches.start
    rate = sum(done.values()) / took
    print(
        f"{name}: {done['remoted']} calls remoted, {done['direct']} directly, {rate:.0f} a second,"
        f" {batches.lost} processes ended early",
        flush=True,
    )
    if batches.lost > max(FEW_LOST, MOST_LOST * sum(done.values()) / BATCH):
        batches.problems.append(f"{batches.lost} processes ended early")
    return sum(done.values()), "\n".join(f"{name}: {problem}" for problem in batches.problems)


def main() -> None:
    _, problem = fuzz(0)
    if problem:
        raise SystemExit(problem)


if __name__ == "__main__":
    main()
