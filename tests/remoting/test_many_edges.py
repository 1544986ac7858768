"""Graph requests with more elements than one record holds."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.remoting.node import LocalNode

SECONDS = 120


def test_requests_that_exceed_a_record_are_sent_in_parts(compiled: Callable[[str], Path]) -> None:
    node = LocalNode()
    try:
        done = subprocess.run(
            [compiled("many_edges")],
            env=node.remote_environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    finally:
        node.stop()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "1000 edges with data: 0",
        "4096 edges with data: 0",
        "3000 edges: 0",
        "4096 edges: 0",
        "capture behind 4096 nodes: 0",
    ]
