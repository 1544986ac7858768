"""Questions to the CUDA driver, asked by a process of its own: the agent loads no driver."""

from __future__ import annotations

import os
import subprocess
import sys

TIMEOUT_SECONDS = 60
HIDING = "CUDA_VISIBLE_DEVICES"
"""Grants select the GPUs of sessions; this variable of the agent's environment must not."""


def ask_driver(module: str, *arguments: str) -> int:
    """Return the number that a module prints as a program.

    Blocks for up to 60 s. Raises OSError, ValueError or SubprocessError.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
        env={name: value for name, value in os.environ.items() if name != HIDING},
    )
    return int(done.stdout)
