"""Processes that a program starts: what they may do with the GPU after what the program did.

As NVIDIA documents, CUDA of a forked process works unless its parent had initialised CUDA, when
cuInit returns CUDA_ERROR_NOT_INITIALIZED. NVML works in both. Processes that execute a program
start afresh.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from deploy.supervisor import ROOT, wait_for
from tests.remoting.modes import MODES
from tests.remoting.node import EVENT_SECONDS, LocalNode

PROGRAM = [sys.executable, "-m", "tests.remoting.forking_program"]
FORKS = ("fork", "fork twice")
STARTS = (*FORKS, "vfork and exec", "spawn", "forkserver")
WORKS = {
    "nothing": [],
    "NVML": ["NVML works"],
    "CUDA": ["CUDA works"],
    "both": ["NVML works", "CUDA works"],
    "inherited NVML": ["NVML works"],
}
AFTER_CUDA = {"CUDA": ["cuInit 3"], "both": ["NVML works", "cuInit 3"]}
PARENTS, KINDS = ("nothing", "NVML", "CUDA"), ("NVML", "CUDA", "both")
CASES = [(start, "shared memory") for start in STARTS] + [("fork", "TLS")]


def outcome(node: LocalNode, parent: str, start: str, mode: str, *kinds: str) -> dict[str, Any]:
    done = subprocess.run(
        [*PROGRAM, parent, start, *kinds],
        env=node.remote_environment(**MODES[mode]),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=EVENT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "busbar:" not in done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.parametrize(("start", "mode"), CASES)
@pytest.mark.parametrize("parent", PARENTS)
def test_started_process_has_the_gpu_as_with_nvidias_driver(
    node: LocalNode, parent: str, start: str, mode: str
) -> None:
    after_cuda = WORKS | AFTER_CUDA
    expected = after_cuda if parent == "CUDA" and start in FORKS else WORKS
    children = {kind: expected[kind] for kind in KINDS}
    if start == "fork twice":  # what the child did, its own child did after it
        children = {kind: seen + after_cuda[kind] for kind, seen in children.items()}
    seen = outcome(node, parent, start, mode, *KINDS)
    assert seen == children | {"parent": WORKS[parent]}


def test_forked_process_inherits_that_nvml_is_initialised(node: LocalNode) -> None:
    seen = outcome(node, "NVML", "fork", "shared memory", "inherited NVML")
    assert seen["inherited NVML"] == ["NVML works"]


@pytest.mark.parametrize("mode", ["shared memory", "TLS"])
@pytest.mark.parametrize("parent", ["NVML", "CUDA"])
def test_session_ends_with_its_program_while_a_forked_process_lives(
    node: LocalNode, parent: str, mode: str
) -> None:
    env = node.remote_environment(**MODES[mode])
    program = subprocess.Popen(
        [*PROGRAM, parent, "hold"], env=env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def is_open() -> bool:
        return any(s.client_pid == program.pid and s.state == "running" for s in node.sessions())

    assert program.stdout
    child = int(program.stdout.readline())
    log = node.folder / "launcher.log"
    try:
        wait_for("the session", is_open, log, EVENT_SECONDS)
        program.kill()
        wait_for("the end of the session", lambda: not is_open(), log, EVENT_SECONDS)
    finally:
        program.kill()
        os.kill(child, signal.SIGKILL)
        program.communicate()
