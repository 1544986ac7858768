"""Programs that must print the same directly on the driver and through remoting."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.remoting.calls.record import claims, unproven
from tests.remoting.calls.recorder import CLIENT, Recorder, read_record
from tests.remoting.modes import MODES
from tests.remoting.node import LocalNode, direct_environment

PROGRAMS = (
    "streams",
    "host_functions",
    "memory",
    "errors",
    "threads",
    "graphs",
    "graph_nodes",
    "copies",
    "launch_in_steps",
    "linker",
    "jit_logs",
    "graph_ends",
    "graph_conditions",
    "array_copies",
    "attributes",
    "graph_memory",
    "node_params",
    "unified",
    "mapped_copies",
    "causality",
    "mipmaps",
    "surfaces",
    "occupancy",
    "captures",
    "ipc",
    "ipc_ends",
    "tensor_maps",
    "newer_calls",
    "invalid_handles",
)

ONLY_OURS = ("newer_calls", "invalid_handles", "ipc_ends")
"""NVIDIA's driver has no such calls yet, crashes, or waits for ever (ADR 99)."""

NEEDS_ARENAS = {"ipc"}
"""Memory that is allocated without arenas cannot be shared."""
ONE_MODE = {"ipc_ends": "shared memory"}
"""It waits for seconds until sessions have ended; nothing of it depends on the transport."""
MINUTES = {"causality"}
"""Each of its thousands of rounds waits for the GPU."""
SECONDS = 120
RUNS = [
    pytest.param(
        name, mode, marks=[pytest.mark.long] if name in MINUTES and mode != "shared memory" else []
    )
    for name in PROGRAMS
    for mode in MODES
    if name not in NEEDS_ARENAS or "BUSBAR_ARENA" not in MODES[mode]
    if ONE_MODE.get(name, mode) == mode
]


def output(program: Path, env: dict[str, str], seconds: float = SECONDS) -> str:
    done = subprocess.run(
        [program], env=env, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout


@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_output_is_equal_directly_and_remoted(
    node: LocalNode, compiled: Callable[[str], Path], tmp_path: Path, name: str, mode: str
) -> None:
    program = compiled(name)
    direct = output(program, direct_environment(tmp_path))
    assert "WRONG" not in direct
    assert output(program, node.remote_environment(**MODES[mode])) == direct


@pytest.mark.parametrize("name", [name for name in PROGRAMS if claims(name)])
def test_record_claims_no_call_that_the_program_does_not_execute(
    node: LocalNode, compiled: Callable[[str], Path], recorder: Recorder, tmp_path: Path, name: str
) -> None:
    output(compiled(name), node.remote_environment() | recorder.environment(CLIENT, tmp_path))
    assert unproven(name, read_record(tmp_path)) == []


def test_memory_is_released_between_sessions(
    node: LocalNode, compiled: Callable[[str], Path]
) -> None:
    for _ in range(3):
        output(compiled("memory"), node.remote_environment())
    assert all(s.memory_bytes == 0 for s in node.sessions() if s.state == "closed")
