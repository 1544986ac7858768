"""Sessions that use more memory than their ledger holds, as NVML shows it."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pynvml
import pytest

from deploy.supervisor import SOFTGPU, wait_for
from nodes import context_memory
from nodes.agent import Agent
from nodes.context_memory import UNMEASURED_CONTEXT_BYTES, measure_contexts
from nodes.credential_keeper import CredentialKeeper
from nodes.gpus import Gpu, Nvml
from nodes.launcher_control import Grant, Partition, SessionReport
from nodes.memory_watch import COMPARISONS, TOLERANCE_BYTES, MemoryWatch
from nodes.protocol import fleet_pb2
from tests.remoting.node import NULL_DRIVER, NULL_DRIVER_GPUS, LocalNode
from tests.remoting.test_charges import MIB, program
from tests.session_reports import SESSION

GPU = NULL_DRIVER_GPUS[0]
ALLOCATION = uuid.uuid4()
CHARGED, CONTEXT = 1 << 30, 300 * MIB
GRANT = Grant(ALLOCATION, uuid.uuid4(), 1, 1, (Partition(GPU, 1 << 30, 50),))
PERMITTED = CHARGED + CONTEXT + TOLERANCE_BYTES + CHARGED // 20
HELD = replace(SESSION, allocation_id=ALLOCATION, memory_bytes=CHARGED, partition_bytes=(CHARGED,))


def compare(watch: MemoryWatch, used: int, session: SessionReport = HELD) -> bool:
    return bool(watch.compare({GPU: {77: used}}, [session], [GRANT]))


@pytest.fixture
def watch() -> MemoryWatch:
    return MemoryWatch({GPU: CONTEXT})


def test_excess_in_successive_comparisons_ends_the_session(watch: MemoryWatch) -> None:
    assert [compare(watch, PERMITTED + 1) for _ in range(COMPARISONS)] == [False, False, True]


def test_use_within_the_tolerance_is_permitted(watch: MemoryWatch) -> None:
    assert not any(compare(watch, PERMITTED) for _ in range(2 * COMPARISONS))


def test_comparison_without_excess_starts_the_count_again(watch: MemoryWatch) -> None:
    used = (PERMITTED + 1, PERMITTED + 1, PERMITTED, PERMITTED + 1, PERMITTED + 1)
    assert not any(compare(watch, n) for n in used)


def test_session_that_has_ended_is_not_compared(watch: MemoryWatch) -> None:
    closed = replace(HELD, state="closed")
    assert not any(compare(watch, 2 * PERMITTED, closed) for _ in range(2 * COMPARISONS))


def test_context_that_could_not_be_measured_is_assumed() -> None:
    watch = MemoryWatch({})
    assert watch.permitted_bytes(GPU, 0) == UNMEASURED_CONTEXT_BYTES + TOLERANCE_BYTES


@pytest.fixture
def software_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    environment = {"LD_LIBRARY_PATH": str(SOFTGPU), "BUSBAR_SOFTGPU_DIR": str(tmp_path)}
    run = subprocess.run

    def run_with_gpu(command: list[str], **options: Any) -> Any:
        return run(command, **options | {"env": options["env"] | environment})

    monkeypatch.setattr(context_memory.subprocess, "run", run_with_gpu)


def test_driver_that_does_not_answer_is_asked_for_one_gpu_of_a_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []

    def hang(command: list[str], **options: Any) -> None:
        asked.append(command)
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(context_memory.subprocess, "run", hang)
    gpus = [
        Gpu(uuid.uuid4(), i, "Test GPU", 1 << 30, "12.0", f"00000000:0{i}:00.0") for i in (1, 2)
    ]
    assert set(measure_contexts(gpus).values()) == {UNMEASURED_CONTEXT_BYTES}
    assert len(asked) == 1


@pytest.mark.usefixtures("software_gpus")
def test_context_is_measured_whatever_the_agent_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    gpu = Gpu(uuid.uuid4(), 0, "Test GPU", 1 << 30, "12.0", "00000000:01:00.0")
    assert measure_contexts([gpu]) == {gpu.uuid: 0}


@pytest.mark.usefixtures("software_gpus")
def test_context_of_the_software_gpu_takes_no_memory() -> None:
    gpu = Gpu(uuid.uuid4(), 0, "Software GPU", 1 << 30, "12.0", "00000000:01:00.0")
    assert measure_contexts([gpu]) == {gpu.uuid: 0}


@pytest.mark.usefixtures("software_gpus")
def test_context_is_measured_on_another_gpu_of_the_model_if_the_first_is_lost() -> None:
    lost = Gpu(uuid.uuid4(), 63, "Test GPU", 1 << 30, "12.0", "00000000:FF:00.0")
    gpu = Gpu(uuid.uuid4(), 0, "Test GPU", 1 << 30, "12.0", "00000000:01:00.0")
    assert measure_contexts([lost, gpu]) == {lost.uuid: 0, gpu.uuid: 0}
    assert measure_contexts([lost]) == {lost.uuid: UNMEASURED_CONTEXT_BYTES}


@pytest.fixture
def null_node() -> Iterator[LocalNode]:
    node = LocalNode(NULL_DRIVER, partitions=[Partition(GPU, 1 << 30, 50)])
    yield node
    node.stop()


class FakeGpus(Nvml):
    """NVML of a machine with one GPU, whose processes a test invents in the library."""

    def __init__(self) -> None:
        self._failures = {}

    def gpus(self) -> list[Gpu]:
        return [Gpu(GPU, 0, "Test GPU", 80 << 30, "9.0")]


def agent_of(node: LocalNode) -> Agent:
    identity = SimpleNamespace(node_id=str(node.node_id))
    keeper = SimpleNamespace(credentials=SimpleNamespace(identity=identity))
    agent = Agent(cast("CredentialKeeper", keeper), node.control, [], FakeGpus())
    agent.context_bytes[GPU] = CONTEXT
    grant = fleet_pb2.Grant(allocation_id=node.allocation_id.bytes, tenant_id=node.tenant_id.bytes)
    grant.partitions.add(gpu_uuid=GPU.bytes, memory_bytes=1 << 30, compute_percent=50)
    agent._desired = fleet_pb2.DesiredState(grants=[grant])
    return agent


def compare_often(agent: Agent) -> None:
    for _ in range(COMPARISONS):
        asyncio.run(agent.compare_processes())


def test_agent_kills_a_session_beyond_its_charge(
    null_node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, used = agent_of(null_node), {"bytes": 0}
    with program(null_node) as p:
        assert p.allocate("cuMemAlloc", 100 * MIB).startswith("ok")
        (session,) = [s for s in null_node.sessions() if s.state == "running"]
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda i: i)
        monkeypatch.setattr(
            pynvml,
            "nvmlDeviceGetComputeRunningProcesses",
            lambda _: [SimpleNamespace(pid=session.pid, usedGpuMemory=used["bytes"])],
        )
        used["bytes"] = 100 * MIB + CONTEXT
        compare_often(agent)
        assert null_node.sessions()[0].state == "running"
        used["bytes"] = 2 << 30
        compare_often(agent)
        wait_for(
            "the end of the session",
            lambda: null_node.sessions()[0].state == "closed",
            null_node.folder / "launcher.log",
            5,
        )
    assert null_node.sessions()[0].reason == (
        "it was killed: it used 2048 MiB of a GPU and charged 100 MiB"
    )
