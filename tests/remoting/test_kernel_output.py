"""Output of kernels through a session server, whose pipe holds only a part of it."""

from __future__ import annotations

import subprocess
import sys

from deploy.supervisor import ROOT
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
