"""A short soak test, and planted faults that the soak test must detect."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from tests.remoting.node import LocalNode
from tests.suites import soak_starvation
from tests.suites.soak_kills import find_leftovers, soak


@pytest.mark.long
def test_kills_leave_no_resources() -> None:
    assert soak(8) == []


@pytest.mark.long
def test_program_with_full_pools_progresses_on_a_fifth_of_a_core() -> None:
    """The soak uses 5 %, with which TLS needs about the permitted 5 s on a slow machine."""
    assert soak_starvation.soak(16, share=0.2) == []


def test_remaining_session_is_detected(compiled: Callable[[str], Path]) -> None:
    node = LocalNode()
    program = subprocess.Popen(
        [compiled("soak"), "1000", "1", "shared"],
        env=node.remote_environment(),
        stderr=subprocess.PIPE,
    )
    try:
        kinds = ("is running", "bytes of GPU memory", "beside the spare one")
        wait_for(
            "the reported resources",
            lambda: all(k in " ".join(find_leftovers(node)) for k in kinds),
            node.folder / "launcher.log",
        )
    finally:
        program.kill()
        program.communicate()
        node.stop()


@pytest.mark.parametrize("transport", ["shm", "tls"])
def test_objects_of_eight_threads_are_not_confused(
    compiled: Callable[[str], Path], transport: str
) -> None:
    """The driver reuses handles: one thread's freed handle can name another thread's new object."""
    node = LocalNode()
    done = subprocess.run(
        [compiled("soak"), "4", "8"],
        env=node.remote_environment(BUSBAR_TRANSPORT=transport),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    node.stop()
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_leak_in_program_is_detected(compiled: Callable[[str], Path]) -> None:
    node = LocalNode()
    done = subprocess.run(
        [compiled("soak"), "1", "2", "leak"],
        env=node.remote_environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    node.stop()
    assert done.returncode != 0 and "not released 0" not in done.stdout
