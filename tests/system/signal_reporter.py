"""A program that reports its signals, for tests of `busbar run`."""

from __future__ import annotations

import os
import signal
import sys

from deploy.supervisor import ROOT

BUSBAR = str(ROOT / "build" / "bin" / "busbar")
REPORT = """
import os, signal, sys
numbers = set(map(int, sys.argv[2:]))
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
report = open(sys.argv[1], "w", buffering=1)
print(os.getppid(), os.getpid(), file=report)
while True:
    got = signal.sigwaitinfo(numbers)
    how = "passed on" if got.si_pid == os.getppid() else "direct"
    print(got.si_signo, how, file=report)
"""
"""Prints each signal that it receives, and whether `busbar run` sent it."""
END = signal.SIGRTMAX
"""Passed on after all others: signals are passed on in the order of their numbers."""


class Reporter:
    """A program under `busbar run` that reports its signals."""

    def __init__(self, *signals: int, before: tuple[str, ...] = ()) -> None:
        """Make the command line of a program, which has `before` in front of it, and `END`."""
        reports, self._program_end = os.pipe()
        self._reports = os.fdopen(reports)
        path = f"/proc/{os.getpid()}/fd/{self._program_end}"
        numbers = [str(int(number)) for number in (*signals, END)]
        program = [*before, sys.executable, "-c", REPORT, path, *numbers]
        self.line = [BUSBAR, "run", "-p", "5", "--", *program]
        self.busbar = self.program = 0

    def wait_until_ready(self) -> None:
        """Block until the program takes signals. The pids are known then."""
        self.busbar, self.program = map(int, self.next().split())
        os.close(self._program_end)

    def next(self) -> str:
        """Return the next report; it is empty if the program has ended."""
        return self._reports.readline().strip()

    def until_end(self) -> list[str]:
        """Return what the program reports until END, sent to `busbar run` alone, reaches it."""
        os.kill(self.busbar, END)
        found: list[str] = []
        while (line := self.next()) != f"{int(END)} passed on":
            assert line, f"The program has ended after {found}."
            found.append(line)
        return found
