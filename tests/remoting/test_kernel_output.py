"""Output of kernels through a session server, whose pipe holds only a part of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.supervisor import ROOT
from tests.remoting.modes import MODES
from tests.remoting.node import LocalNode
from tests.remoting.printing_program import CHARACTERS, LINES


def test_output_that_is_larger_than_the_pipe_arrives(node: LocalNode) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.remoting.printing_program"],
        env=node.remote_environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("x" * CHARACTERS + "\n") * LINES


@pytest.mark.parametrize("mode", ["shared memory", "TLS"])
def test_program_writes_managed_memory_while_a_kernel_prints(
    node: LocalNode, compiled: Callable[[str], Path], mode: str
) -> None:
    done = subprocess.run(
        [compiled("managed_output")],
        env=node.remote_environment(**MODES[mode]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts = {letter: done.stdout.count(letter) for letter in "xy\n"}
    assert counts == {"x": 8 * 5 * 5000, "y": 5 * 1000, "\n": 5 * 5000}
