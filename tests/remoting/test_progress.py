"""Programs that hang if the executor of their session server waits for anything (ADR 056)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.remoting.modes import MODES
from tests.remoting.node import LocalNode

CASES = (
    "memory_is_freed",
    "queue_is_full",
    "output_is_flushed",
    "upload_waits",
)
SECONDS = 30


def test_bulk_connection_opens_while_the_launcher_restarts(
    compiled: Callable[[str], Path],
) -> None:
    name = "bulk_connection_opens_later"
    node = LocalNode()
    program = subprocess.Popen(
        [compiled("progress"), name],
        env=node.remote_environment(BUSBAR_TRANSPORT="tls"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stderr and program.stderr.readline() == "ready\n"
        node.launcher.kill()
        node.launcher.wait()
        assert program.stdin
        program.stdin.write("\n")
        program.stdin.flush()
        node.restart()
        assert program.communicate(timeout=SECONDS)[0] == f"{name}: passed\n"
    finally:
        program.kill()
        node.stop()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_program_ends(
    node: LocalNode, compiled: Callable[[str], Path], name: str, mode: str
) -> None:
    done = subprocess.run(
        [compiled("progress"), name],
        env=node.remote_environment(**MODES[mode]),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout == f"{name}: passed\n", done.stdout + done.stderr[-2000:]
