"""The soak in small, and that it notices what it is there for."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from tests.remoting.node import LocalNode
from tests.suites.soak import left_over, soak


def test_kills_leave_nothing_behind() -> None:
    assert soak(8) == []


def test_a_session_that_stays_is_noticed(compiled: Callable[[str], Path]) -> None:
    node = LocalNode()
    program = subprocess.Popen(
        [compiled("soak"), "30", "1", "shared"],
        env=node.remote_environment(),
        stderr=subprocess.PIPE,
    )
    try:
        kinds = ("is running", "bytes of GPU memory", "beside the spare one")
        wait_for(
            "what is there",
            lambda: all(k in " ".join(left_over(node)) for k in kinds),
            node.folder / "launcher.log",
            20,
        )
    finally:
        program.kill()
        program.communicate()
        node.stop()


@pytest.mark.parametrize("transport", ["shm", "tls"])
def test_objects_that_eight_threads_make_and_destroy_are_never_confused(
    compiled: Callable[[str], Path], transport: str
) -> None:
    """The driver gives a value that one thread just freed to another's new object."""
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


def test_a_leak_in_a_program_is_noticed(compiled: Callable[[str], Path]) -> None:
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
    assert done.returncode != 0 and "not given back 0" not in done.stdout
