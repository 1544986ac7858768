"""`busbar run`: each signal reaches the program once, sent to it alone or to its group."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.remoting.node import EVENT_SECONDS
from tests.system.conftest import Pool
from tests.system.signal_reporter import BUSBAR, Reporter

pytestmark = pytest.mark.system

GROUP_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGTERM,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGWINCH,
    signal.SIGRTMIN,
)
ROUNDS = 30


@pytest.fixture
def settled(pool: Pool) -> Iterator[Pool]:
    yield pool
    pool.settle()


Start = Callable[..., Reporter]


@pytest.fixture
def start(settled: Pool) -> Iterator[Start]:
    """Return a function that starts a reporter in a process group of its own, without terminal."""
    started: list[subprocess.Popen[bytes]] = []
    programs: list[int] = []

    def start_reporter(*signals: int, before: tuple[str, ...] = ()) -> Reporter:
        reporter = Reporter(*signals, before=before)
        env = os.environ | {"BUSBAR_CONTEXT": str(settled.context)}
        started.append(subprocess.Popen(reporter.line, env=env, process_group=0))
        reporter.wait_until_ready()
        programs.append(reporter.program)
        return reporter

    yield start_reporter
    for program in programs:
        os.kill(
            program, signal.SIGKILL
        )  # some block SIGTERM, which they get with the command's end
    for process in started:
        process.kill()
        process.wait(EVENT_SECONDS)


def test_signal_to_the_group_reaches_the_program_once(start: Start) -> None:
    reporter = start(*GROUP_SIGNALS)
    for number in GROUP_SIGNALS:
        os.killpg(reporter.busbar, number)
        assert reporter.next() == f"{int(number)} direct"
        if number == signal.SIGTSTP:  # it stops `busbar run`
            os.waitpid(reporter.busbar, os.WUNTRACED)
            os.kill(reporter.busbar, signal.SIGCONT)
            assert reporter.next() == f"{int(signal.SIGCONT)} passed on"
        assert reporter.until_end() == []


def test_signals_in_quick_succession_are_told_apart(start: Start) -> None:
    """The program may find several signals with one number as one, but never gets one of ours."""
    numbers = (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM)
    reporter = start(*numbers)
    for _ in range(ROUNDS):
        for number in numbers * 3:
            os.killpg(reporter.busbar, number)
        found = reporter.until_end()
        assert set(found) == {f"{int(number)} direct" for number in numbers}
        for number in numbers:
            os.kill(reporter.busbar, number)
        assert reporter.until_end() == [f"{int(number)} passed on" for number in sorted(numbers)]


def test_job_that_is_stopped_and_continued_at_once_goes_on(start: Start) -> None:
    reporter = start(signal.SIGTSTP, signal.SIGCONT)
    for _ in range(ROUNDS):
        os.killpg(reporter.busbar, signal.SIGTSTP)
        os.killpg(reporter.busbar, signal.SIGCONT)
        assert all(line.endswith(" direct") for line in reporter.until_end())


def test_command_that_is_continued_alone_continues_the_program(start: Start) -> None:
    reporter = start(signal.SIGUSR1)
    for _ in range(ROUNDS):
        os.killpg(reporter.busbar, signal.SIGSTOP)
        os.waitpid(reporter.busbar, os.WUNTRACED)
        os.kill(reporter.busbar, signal.SIGUSR1)
        os.kill(reporter.busbar, signal.SIGCONT)
        assert reporter.until_end() == [f"{int(signal.SIGUSR1)} passed on"]


def test_program_that_left_the_group_gets_its_signals(start: Start) -> None:
    reporter = start(signal.SIGINT, before=("setsid",))
    os.killpg(reporter.busbar, signal.SIGINT)
    assert reporter.until_end() == [f"{int(signal.SIGINT)} passed on"]


def test_program_under_nohup_outlives_the_terminal(start: Start) -> None:
    reporter = start(signal.SIGUSR1, before=("nohup",))
    os.killpg(reporter.busbar, signal.SIGUSR1)
    os.kill(reporter.busbar, signal.SIGHUP)
    assert reporter.until_end() == [f"{int(signal.SIGUSR1)} direct"]


def test_command_under_nohup_stays_in_the_queue(settled: Pool) -> None:
    whole = [settled.start(100, "sh", "-c", "echo started; exec sleep 600") for _ in range(2)]
    assert [p.stdout.readline() for p in whole if p.stdout] == ["started\n"] * 2
    env = os.environ | {"BUSBAR_CONTEXT": str(settled.context)}
    line = ["nohup", BUSBAR, "run", "-p", "100", "--", "true"]
    queued = subprocess.Popen(line, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        settled.wait("the queue", lambda: bool(settled.api.items("allocations", state="queued")))
        queued.send_signal(signal.SIGHUP)
        for process in whole:
            process.terminate()
        assert queued.wait(EVENT_SECONDS) == 0
    finally:
        queued.kill()


def test_witness_is_not_found_by_the_name_of_the_command(start: Start) -> None:
    """Else `pkill -f "busbar run"` would look like a signal to the group."""
    witness = witness_of(start())
    assert Path(f"/proc/{witness}/cmdline").read_bytes().strip(b"\0") == b"signal-witness"


@pytest.mark.parametrize(("number", "before"), [(signal.SIGUSR1, ()), (signal.SIGTSTP, ["setsid"])])
def test_signal_to_each_process_by_itself_does_not_hide_a_later_one(
    settled: Pool, start: Start, number: int, before: list[str]
) -> None:
    """As by `scancel` or `systemctl kill`: the witness's own does not mean one to the group."""
    reporter = start(number, before=tuple(before))
    witness = witness_of(reporter)
    os.kill(reporter.busbar, number)
    assert reporter.next() == f"{int(number)} passed on"
    os.kill(witness, number)
    os.kill(reporter.program, number)
    assert reporter.next() == f"{int(number)} direct"
    settled.wait("an empty witness", lambda: not is_pending(witness, number))
    assert reporter.until_end() == []
    os.kill(reporter.busbar, number)
    assert reporter.until_end() == [f"{int(number)} passed on"]


def witness_of(reporter: Reporter) -> int:
    processes = map(int, filter(str.isdigit, os.listdir("/proc")))
    members = {p for p in processes if is_in(p, reporter.busbar)}
    (witness,) = members - {reporter.busbar, reporter.program}
    return witness


def is_pending(process: int, number: int) -> bool:
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    (pending,) = (line.split()[1] for line in status if line.startswith("ShdPnd:"))
    return bool(int(pending, 16) >> number - 1 & 1)


def is_in(process: int, group: int) -> bool:
    try:
        return os.getpgid(process) == group
    except ProcessLookupError:
        return False
