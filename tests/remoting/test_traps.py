"""What naive remoting gets wrong, each by its name. test_conformance.py holds the rest: sticky errors, capture across threads, order of threads."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.remoting.node import LocalNode, direct_environment

TRAPS = (
    "late_read", "polled_download", "download_before_event", "parked_stream", "per_thread_default_stream", "large_parameters", "forked_child", "exit_order",
    "unmapped_target", "hole_in_order",
)  # fmt: skip
ONLY_REMOTED = {"forked_child", "unmapped_target"}
"""Without a network the software GPU is in the program's own process: a child has it too, and a copy into nothing faults there."""
MODES = {"shared memory": {}, "TLS": {"BUSBAR_TRANSPORT": "tls"}, "without arenas": {"BUSBAR_ARENA": "0"}}


CASES = [(trap, mode) for trap in TRAPS for mode in ("directly", *MODES) if mode != "directly" or trap not in ONLY_REMOTED]


@pytest.mark.parametrize(("trap", "mode"), CASES)
def test_trap(node: LocalNode, compiled: Callable[[str], Path], tmp_path: Path, trap: str, mode: str) -> None:
    env = direct_environment(tmp_path) if mode == "directly" else node.remote_environment(**MODES[mode])
    done = subprocess.run([compiled("traps"), trap], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == f"{trap}: right\n" and done.returncode == 0, (done.returncode, done.stdout, done.stderr[-1000:])


@pytest.mark.parametrize("mode", ["directly", *MODES])
def test_what_kernels_print_comes_in_order(node: LocalNode, compiled: Callable[[str], Path], tmp_path: Path, mode: str) -> None:
    env = direct_environment(tmp_path) if mode == "directly" else node.remote_environment(**MODES[mode])
    done = subprocess.run([compiled("traps"), "kernel_prints"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "thread 0 7\nthread 1 7\nwaited\nthread 0 8\nkernel_prints: right\n", (done.stdout, done.stderr[-1000:])
