"""The witness of the process group, with a program that is about to start."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from deploy.supervisor import ROOT

SIGNAL_BEFORE_THE_START = """
import os, signal, sys
from remoting.cli.group_witness import GroupWitness
from remoting.cli.supervision import signals_blocked, supervise

with signals_blocked(), GroupWitness() as witness:
    os.killpg(0, signal.SIGUSR1)
    sys.exit(supervise(["sleep", "600"], dict(os.environ), lambda: "", witness))
"""
GROUPS = """
import os, signal, sys
from remoting.cli.group_witness import GroupWitness
from remoting.cli.supervision import signals_blocked, supervise

program = [sys.executable, "-c", "import os; print('program', os.getpgrp())"]
with signals_blocked(), GroupWitness() as witness:
    supervise(program, dict(os.environ), lambda: "", witness)
    witness.took(signal.SIGUSR1)
    print("supervisor", os.getpgrp())
"""


def test_signal_to_the_group_before_the_program_exists_is_passed_on() -> None:
    line = [sys.executable, "-c", SIGNAL_BEFORE_THE_START]
    done = subprocess.run(line, cwd=ROOT, timeout=120, check=False, process_group=0)
    assert done.returncode == 128 + signal.SIGUSR1


def test_group_is_kept_when_its_leader_is_outside_the_pid_namespace() -> None:
    """As in a container. The group's number is 0 there, by which setpgid() means a new group."""
    inside = ["unshare", "-pf"]
    tried = subprocess.run([*inside, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"No PID namespace can be made: {tried.stderr.strip()}")
    line = [*inside, sys.executable, "-c", GROUPS]
    found = subprocess.check_output(line, cwd=ROOT, timeout=120, text=True)
    assert found.splitlines() == ["program 0", "supervisor 0"]
