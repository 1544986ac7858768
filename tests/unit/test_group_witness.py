"""The witness of the process group, with a program that is about to start."""

from __future__ import annotations

import signal
import subprocess
import sys

from deploy.supervisor import ROOT

SIGNAL_BEFORE_THE_START = """
import os, signal, sys
from remoting.cli.group_witness import GroupWitness
from remoting.cli.supervision import signals_blocked, supervise

with signals_blocked(), GroupWitness() as witness:
    os.killpg(0, signal.SIGUSR1)
    sys.exit(supervise(["sleep", "600"], dict(os.environ), lambda: "", witness))
"""


def test_signal_to_the_group_before_the_program_exists_is_passed_on() -> None:
    line = [sys.executable, "-c", SIGNAL_BEFORE_THE_START]
    done = subprocess.run(line, cwd=ROOT, timeout=120, check=False, process_group=0)
    assert done.returncode == 128 + signal.SIGUSR1
