"""The witness of the process group, with a program that is about to start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.supervisor import ROOT

START = """
import os, signal, sys
from remoting.cli import group_witness
from remoting.cli.api import ApiError
from remoting.cli.group_witness import GroupWitness
from remoting.cli.supervision import signals_blocked, start_program, supervise

python, env = [sys.executable, "-c"], dict(os.environ)

def run(command):
    with signals_blocked():
        return supervise(command, env, lambda: "")
"""
SIGNAL_BEFORE_THE_START = """
with signals_blocked():
    os.killpg(0, signal.SIGUSR1)
    sys.exit(run(["sleep", "600"]))
"""
SIGNAL_BEFORE_THE_WITNESS = """
group_witness._take_name = lambda: os.killpg(0, signal.SIGWINCH)
with signals_blocked(), GroupWitness() as witness:
    program = start_program(["sleep", "600"], env, witness)
    print(signal.SIGWINCH in signal.sigpending(), witness.took(signal.SIGWINCH))
    program.kill()
"""
CHILDREN = """
program = '''
import os
parent = os.getppid()
print(open(f"/proc/{parent}/task/{parent}/children").read(), os.getpid())
'''
run([*python, program])
"""
NO_INTERPRETER = """
try:
    run([sys.argv[1]])
except ApiError as error:
    pid = os.getpid()
    print(error.exit_code, open(f"/proc/{pid}/task/{pid}/children").read())
"""
GROUPS = """
program = '''
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getppid(), signal.SIGUSR1)
signal.sigwait({signal.SIGUSR1})
print("program", os.getpgrp())
'''
run([*python, program])
print("supervisor", os.getpgrp())
"""


def started(text: str, *arguments: str, before: tuple[str, ...] = ()) -> list[str]:
    return [*before, sys.executable, "-c", START + text, *arguments]


def output(line: list[str]) -> str:
    """Return what a program prints that has a process group of its own."""
    return subprocess.check_output(line, cwd=ROOT, timeout=120, text=True, process_group=0)


def test_program_is_the_first_child_and_the_witness_the_second() -> None:
    first, second, program = output(started(CHILDREN)).split()
    assert first == program != second


def test_signal_to_the_group_before_the_program_exists_is_passed_on() -> None:
    line = started(SIGNAL_BEFORE_THE_START)
    done = subprocess.run(line, cwd=ROOT, timeout=120, check=False, process_group=0)
    assert done.returncode == 128 + signal.SIGUSR1


def test_signal_to_the_group_between_program_and_witness_counts_as_received() -> None:
    assert output(started(SIGNAL_BEFORE_THE_WITNESS)).split() == ["True", "True"]


def test_no_child_is_left_of_a_program_that_cannot_be_executed(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert output(started(NO_INTERPRETER, str(script))).split() == ["126"]


def test_group_is_kept_when_its_leader_is_outside_the_pid_namespace() -> None:
    """As in a container. The group's number is 0 there, by which setpgid() means a new group."""
    inside = ("unshare", "-pf")
    tried = subprocess.run([*inside, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"No PID namespace can be made: {tried.stderr.strip()}")
    found = output(started(GROUPS, before=inside))
    assert found.splitlines() == ["program 0", "supervisor 0"]
