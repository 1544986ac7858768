"""The software GPU refuses handles of freed objects, of other types, and of what is in use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.supervisor import ROOT
from tests.remoting.node import direct_environment

INVALID_VALUE, INVALID_HANDLE, SUCCESS = 1, 400, 0
EXPECTED = {
    "captured_graph": [INVALID_VALUE, SUCCESS],
    "graph_around_a_captured_one": [INVALID_VALUE, INVALID_VALUE, SUCCESS],
    "graph_of_a_captured_stream_that_is_destroyed": [INVALID_VALUE],
    "graph_of_a_node": [INVALID_VALUE, SUCCESS],
    "body_of_a_condition": [INVALID_VALUE, SUCCESS],
    "handle_of_another_type": [
        *(INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_HANDLE),
        *(INVALID_HANDLE, INVALID_HANDLE, INVALID_VALUE, INVALID_VALUE),
    ],
    "kernel_of_an_unloaded_module": [1],
    "heap_that_kernels_use": [SUCCESS, INVALID_VALUE],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_stale_handle_is_harmless(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.softgpu.stale_handles", name],
        env=direct_environment(tmp_path) | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [int(word) for word in done.stdout.split()] == EXPECTED[name]
