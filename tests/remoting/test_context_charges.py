"""Contexts of sessions: they are charged, and kept out of what programs are offered (ADR 67)."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.supervisor import ROOT, SOFTGPU, wait_for
from nodes.context_memory import measure_contexts
from nodes.gpus import Gpu
from nodes.launcher_control import Grant, Partition
from tests.remoting.node import TENANT_ID, LocalNode, b64, gpu_memory_bytes

MIB = 1 << 20
CONTEXT = 4 * MIB
PARTITION = 16 * MIB
ALLOCATIONS_OF_A_PROGRAM = 10
OUT_OF_MEMORY = "error 2"
FILLING = [sys.executable, "-m", "tests.remoting.filling_program"]
SECONDS = 60


def node_with_contexts(memory_bytes: int) -> LocalNode:
    """Return a node with one software GPU of this size, whose contexts take memory."""
    return LocalNode(
        BUSBAR_SOFTGPU_DEVICES="1",
        BUSBAR_SOFTGPU_MEMORY_BYTES=str(memory_bytes),
        BUSBAR_SOFTGPU_CONTEXT_BYTES=str(CONTEXT),
    )


def measured_context(node: LocalNode, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the memory of a context as the agent of the node measures it."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(SOFTGPU))
    monkeypatch.setenv("BUSBAR_SOFTGPU_DIR", node.env["BUSBAR_SOFTGPU_DIR"])
    gpu = Gpu(node.gpus[0], 0, "Software GPU", 1 << 30, "12.0", "00000000:01:00.0")
    measured = measure_contexts([gpu])[gpu.uuid]
    monkeypatch.undo()
    return measured


def grant_each(node: LocalNode, count: int, context_bytes: int) -> list[uuid.UUID]:
    """Grant allocations with one equal partition each. Return their ids."""
    node.partitions = (Partition(node.gpus[0], PARTITION, 1, context_bytes),)
    allocations = [uuid.uuid4() for _ in range(count)]
    grants = tuple(Grant(a, TENANT_ID, *node.fence, node.partitions) for a in allocations)
    node.control.apply(replace(node.grants(), grants=grants))
    return allocations


def ticket_file(node: LocalNode, folder: Path, allocations: list[uuid.UUID]) -> Path:
    """Write tickets for allocations on one node, as for as many nodes."""
    lines = node.ticket_file().read_text().splitlines()[:1]
    for allocation in allocations:
        ticket = b64(node.ticket(allocation_id=allocation))
        lines += [*node.ticket_lines()[:-1], f"ticket {ticket}"]
    path = folder / f"tickets-{allocations[0]}"
    path.touch(mode=0o600)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@contextmanager
def filling_program(env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        FILLING, env=env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def check_full_gpu(node: LocalNode, folder: Path, allocations: list[uuid.UUID]) -> None:
    """Let a session of each allocation allocate all that it is offered.

    Raises SystemExit if the sessions then have more than the memory of the GPU, or less.
    """
    with ExitStack() as running:
        for first in range(0, len(allocations), ALLOCATIONS_OF_A_PROGRAM):
            some = allocations[first : first + ALLOCATIONS_OF_A_PROGRAM]
            env = node.remote_environment(
                BUSBAR_ARENA="0", BUSBAR_TICKET_FILE=str(ticket_file(node, folder, some))
            )
            program = running.enter_context(filling_program(env))
            lines = [line_of(program) for _ in some]
            if lines != [str(PARTITION - CONTEXT)] * len(some):
                raise SystemExit(f"a program allocated {lines}")
        if (held := sum(gpu_memory_bytes(node.env))) != PARTITION * len(allocations):
            raise SystemExit(f"the sessions hold {held} bytes")


def test_full_gpu_holds_the_contexts_of_all_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_with_contexts(100 * PARTITION)
    try:
        measured = measured_context(node, monkeypatch)
        assert measured == CONTEXT
        check_full_gpu(node, tmp_path, grant_each(node, 100, measured))
    finally:
        node.stop()


def test_contexts_that_are_not_kept_out_are_detected(tmp_path: Path) -> None:
    """Planted fault: the node believes that contexts take no memory."""
    node = node_with_contexts(4 * PARTITION)
    try:
        with pytest.raises(SystemExit):
            check_full_gpu(node, tmp_path, grant_each(node, 4, 0))
    finally:
        node.stop()


@pytest.fixture
def small_node() -> Iterator[LocalNode]:
    """A node whose partition holds four contexts."""
    node = node_with_contexts(1 << 30)
    node.partitions = (Partition(node.gpus[0], PARTITION, 50, CONTEXT),)
    node.grant()
    yield node
    node.stop()


def test_context_of_another_session_takes_free_memory(small_node: LocalNode) -> None:
    env = small_node.remote_environment(BUSBAR_ARENA="0")
    with filling_program(env) as first:
        assert line_of(first) == str(PARTITION - CONTEXT)
        with filling_program(env) as second:
            assert line_of(second) == OUT_OF_MEMORY
        assert sum(gpu_memory_bytes(small_node.env)) == PARTITION


def test_context_is_charged_until_its_session_ends(small_node: LocalNode) -> None:
    env = small_node.remote_environment(BUSBAR_ARENA="0")
    log = small_node.folder / "launcher.log"

    def allocated() -> str:
        with filling_program(env) as program:
            return line_of(program)

    assert allocated() == str(PARTITION - CONTEXT)
    wait_for("the memory", lambda: allocated() == str(PARTITION - CONTEXT), log, SECONDS)
    small_node.restart()
    wait_for("the memory", lambda: allocated() == str(PARTITION - CONTEXT), log, SECONDS)


def test_partition_without_room_for_a_context_is_refused(small_node: LocalNode) -> None:
    small_node.partitions = (Partition(small_node.gpus[0], PARTITION, 50, 2 * PARTITION),)
    small_node.grant()
    done = subprocess.run(
        FILLING,
        env=small_node.remote_environment(),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    reason = "a partition of 16 MiB has no room for a CUDA context of 32 MiB; allocate more memory"
    assert done.stdout == "" and reason in done.stderr
