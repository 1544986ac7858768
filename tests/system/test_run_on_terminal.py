"""`busbar run` on a terminal: keys, job control of a shell, and the end of the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import shlex
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remoting.node import EVENT_SECONDS
from tests.system.conftest import Pool
from tests.system.signal_reporter import BUSBAR, Reporter

pytestmark = pytest.mark.system

SHELL = ["bash", "--norc", "--noprofile", "--noediting", "-i"]


class Terminal:
    """A terminal with one session."""

    def __init__(self, pool: Pool, line: list[str]) -> None:
        self._ours, theirs = pty.openpty()

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        self.leader = subprocess.Popen(
            line,
            env=os.environ | {"BUSBAR_CONTEXT": str(pool.context), "PS1": "", "TERM": "dumb"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=take_terminal,
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def read_until(self, text: str) -> None:
        """Block until the text has arrived; typed text is also shown."""
        found = ""
        while text not in found:
            found += os.read(self._ours, 1024).decode()

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def hang_up(self) -> None:
        os.close(self._ours)
        self._ours = -1

    def close(self) -> None:
        self.leader.kill()
        self.leader.wait(EVENT_SECONDS)
        if self._ours != -1:
            self.hang_up()


@pytest.fixture
def terminals(pool: Pool) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()
    pool.settle()


@pytest.fixture
def shell(pool: Pool, terminals: list[Terminal]) -> Terminal:
    terminals.append(Terminal(pool, SHELL))
    return terminals[-1]


def started_by_shell(shell: Terminal, *signals: int) -> Reporter:
    """Return a program in the foreground of a shell."""
    reporter = Reporter(*signals)
    shell.type(shlex.join(reporter.line).replace("\n", "'$'\\n''") + "\n")
    reporter.wait_until_ready()
    return reporter


def state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def assert_only_report(reporter: Reporter, line: str) -> None:
    """Wait for it first: the kernel handles typed keys later than a signal that is sent after."""
    assert reporter.next() == line
    assert reporter.until_end() == []


def test_signal_of_the_terminal_reaches_the_program_once(shell: Terminal) -> None:
    reporter = started_by_shell(shell, signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH)
    for key, number in (("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT)):
        shell.type(key)
        assert_only_report(reporter, f"{int(number)} direct")
    shell.resize(columns=99)
    assert_only_report(reporter, f"{int(signal.SIGWINCH)} direct")


def test_shell_stops_and_continues_the_job(pool: Pool, shell: Terminal) -> None:
    reporter = started_by_shell(shell, signal.SIGCONT)
    for _ in range(3):
        shell.type("\x1a")
        shell.read_until("Stopped")
        pool.wait("the stop of the program", lambda: state_of(reporter.program) == "T")
        assert state_of(reporter.busbar) == "T"
        shell.type("fg\n")
        assert_only_report(reporter, f"{int(signal.SIGCONT)} direct")


def test_shell_stops_and_continues_a_job_in_the_queue(pool: Pool, shell: Terminal) -> None:
    whole = [pool.start(100, "sh", "-c", "echo started; exec sleep 600") for _ in range(2)]
    assert [p.stdout.readline() for p in whole if p.stdout] == ["started\n"] * 2
    shell.type(f"{BUSBAR} run -p 100 -- true\n")
    pool.wait("the queue", lambda: bool(pool.api.items("allocations", state="queued")))
    shell.type("\x1a")
    shell.read_until("Stopped")
    shell.type("fg; echo code=$?\n")
    for process in whole:
        process.terminate()
    shell.read_until("code=0")


def test_job_in_the_background_that_reads_the_terminal_stops(shell: Terminal) -> None:
    shell.type("set -b\n")  # report at once
    shell.type(f"{BUSBAR} run -p 5 -- cat &\n")
    shell.read_until("Stopped")
    shell.type("fg; echo code=$?\n")
    shell.type("\x04")
    shell.read_until("code=0")


def test_end_of_the_terminal_of_a_shell_reaches_the_program_directly(shell: Terminal) -> None:
    reporter = started_by_shell(shell, signal.SIGHUP)
    shell.hang_up()
    assert reporter.next() == f"{int(signal.SIGHUP)} direct"
    # The shell sends one to its job, and the kernel when the shell ends.
    assert all(line.endswith(" direct") for line in reporter.until_end())
    os.kill(reporter.busbar, signal.SIGKILL)


def test_command_without_a_shell(pool: Pool, terminals: list[Terminal]) -> None:
    """As by `ssh -t`: it leads the session, so that nothing could continue it after Ctrl-Z."""
    reporter = Reporter(signal.SIGHUP, signal.SIGINT, signal.SIGTSTP)
    terminals.append(Terminal(pool, reporter.line))
    reporter.wait_until_ready()
    for key, number in (("\x03", signal.SIGINT), ("\x1a", signal.SIGTSTP)):
        terminals[-1].type(key)
        assert_only_report(reporter, f"{int(number)} direct")
    terminals[-1].hang_up()  # the kernel tells the leader alone
    assert_only_report(reporter, f"{int(signal.SIGHUP)} passed on")
