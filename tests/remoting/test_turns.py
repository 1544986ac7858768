"""Turns of sessions on a software GPU: what is reported, and what happens without a launcher."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.supervisor import BUILD, wait_for
from nodes.protocol import fleet_pb2
from nodes.protocol.session_ends import TOO_LATE
from remoting.bench.partitions import tenants as partitions
from remoting.bench.partitions.tenants import Load, Tenant, completed, work_of
from remoting.bench.shared_node import SharedNode
from tests.nodes.test_memory_watch import agent_of
from tests.remoting.node import EVENT_SECONDS

SHORT_KERNEL, LONG_KERNEL, LONGEST_KERNEL = 5_000, 1_500_000_000, 4_000_000_000
"""Rounds: some ten microseconds, and seconds."""
PEER_LAUNCHES = 100
UNENFORCED_SECONDS = 3.0
"""Longer than sessions that share a GPU work without a launcher."""
OVERDUE = "turn did not end"
STOPPED, ENFORCED = "the launcher is stopped", "shares enforced again"


@pytest.fixture(scope="module")
def bench() -> Iterator[partitions.Bench]:
    with partitions.software_gpu(seconds=1) as running:
        yield running


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    wait_for(what, holds, BUILD)


@contextmanager
def running(
    bench: partitions.Bench, percents: Sequence[int], rounds: Sequence[int], batch: int = 2000
) -> Iterator[tuple[SharedNode, list[Tenant]]]:
    environments = bench.node.share(percents, partitions.MEMORY_BYTES)
    loads = [Load(count, batch) for count in rounds]
    with partitions.tenants(bench.node, bench.program, environments, loads) as found:
        yield bench.node, found


def enforcement(node: SharedNode) -> dict[uuid.UUID, str]:
    """Return how the shares of open sessions are enforced, by allocation."""
    open_ones = [s for s in node.sessions() if s.state == "running"]
    return {s.allocation_id: s.enforcement for s in open_ones}


def test_session_reports_whether_it_works_in_turns(bench: partitions.Bench) -> None:
    with running(bench, [30], [SHORT_KERNEL]) as (node, _):
        wait_until("alone", lambda: set(enforcement(node).values()) == {"alone"})
    with running(bench, [30, 70], [SHORT_KERNEL, SHORT_KERNEL]) as (node, _):
        wait_until("turns", lambda: sorted(enforcement(node).values()) == ["turns", "turns"])


def test_turn_that_does_not_end_is_shared_and_reported(bench: partitions.Bench) -> None:
    node, program = bench.node, bench.program
    slow, fast = node.share([50, 50], partitions.MEMORY_BYTES)
    hostile, victim = (g.allocation_id for g in node.shares)
    with ExitStack() as stack:
        tenants = partitions.tenants(node, program, [fast], [Load(SHORT_KERNEL, 2000)])
        (tenant,) = stack.enter_context(tenants)
        # It is not ready before its first batch has ended, which is later than the report.
        stack.enter_context(partitions.started(program, slow, Load(LONG_KERNEL, 1)))
        wait_until("report", lambda: enforcement(node).get(hostile) == "sliced")
        assert enforcement(node)[victim] == "turns"
        before = completed(node)[tenant.page].blocks
        wait_until("work", lambda: completed(node)[tenant.page].blocks > before)


def test_session_whose_work_is_late_for_too_long_ends(bench: partitions.Bench) -> None:
    node, program = bench.node, bench.program
    slow, fast = node.share([50, 50], partitions.MEMORY_BYTES)
    node.shares[0] = replace(node.shares[0], max_late_seconds=1)
    node.grant()

    def reasons() -> dict[uuid.UUID, str]:
        return {s.allocation_id: s.reason for s in node.sessions() if s.state == "closed"}

    with ExitStack() as stack:
        tenants = partitions.tenants(node, program, [fast], [Load(SHORT_KERNEL, 2000)])
        (tenant,) = stack.enter_context(tenants)
        stack.enter_context(partitions.started(program, slow, Load(LONGEST_KERNEL, 1)))
        wait_until("end of the session", lambda: node.shares[0].allocation_id in reasons())
        reason = reasons()[node.shares[0].allocation_id]
        assert reason == f"{TOO_LATE}1 s while others waited"
        wait_until("alone", lambda: set(enforcement(node).values()) == {"alone"})
        before = completed(node)[tenant.page].blocks
        wait_until("work", lambda: completed(node)[tenant.page].blocks > before)


def test_work_waits_for_the_next_launcher(bench: partitions.Bench) -> None:
    with running(bench, [50, 50], [SHORT_KERNEL, SHORT_KERNEL]) as (node, tenants):
        node.launcher.kill()
        node.launcher.wait()
        log = node.folder / "launcher.log"
        wait_until("unenforced work for a while", lambda: "shares unenforced" in log.read_text())
        wait_until("pause", lambda: not any(w.blocks for w in work_of(node, tenants, 0.5)))
        node.restart()
        wait_until("work", lambda: all(w.blocks for w in work_of(node, tenants, 0.5)))
        wait_until("turns", lambda: sorted(enforcement(node).values()) == ["turns", "turns"])


def test_stopped_launcher_counts_as_gone_until_it_goes_on(bench: partitions.Bench) -> None:
    with running(bench, [50, 50], [SHORT_KERNEL, SHORT_KERNEL]) as (node, tenants):
        wait_until("turns", lambda: sorted(enforcement(node).values()) == ["turns", "turns"])
        log = node.folder / "launcher.log"
        node.launcher.send_signal(signal.SIGSTOP)
        try:
            before = log.read_text().count(ENFORCED)
            wait_until("notice", lambda: log.read_text().count(STOPPED) >= before + len(tenants))
            wait_until("pause", lambda: not any(w.blocks for w in work_of(node, tenants, 0.5)))
        finally:
            node.launcher.send_signal(signal.SIGCONT)
        wait_until("return", lambda: log.read_text().count(ENFORCED) >= before + len(tenants))
        wait_until("work", lambda: all(w.blocks for w in work_of(node, tenants, 0.5)))


def test_tenant_alone_works_on_without_a_launcher(bench: partitions.Bench) -> None:
    with running(bench, [50], [SHORT_KERNEL]) as (node, tenants):
        node.launcher.kill()
        node.launcher.wait()
        work_of(node, tenants, UNENFORCED_SECONDS)
        wait_until("work", lambda: all(w.blocks for w in work_of(node, tenants, 0.5)))
        node.restart()


def test_kernels_of_two_gpus_that_wait_for_each_other_end_beside_others_of_that_kind(
    bench: partitions.Bench, compiled: Callable[[str], Path]
) -> None:
    node, program = bench.node, str(compiled("peer_wait"))
    environments = node.share([50, 50], partitions.MEMORY_BYTES, gpus=2)
    log = node.folder / "launcher.log"
    before = log.read_text().count(OVERDUE)
    programs = [
        subprocess.Popen([program, str(PEER_LAUNCHES)], env=env, stdout=subprocess.PIPE, text=True)
        for env in environments
    ]
    outputs = [p.communicate(timeout=EVENT_SECONDS)[0] for p in programs]
    assert [o.split() for o in outputs] == [[str(i) for i in range(PEER_LAUNCHES)]] * 2
    assert log.read_text().count(OVERDUE) == before


def test_agent_reports_a_session_that_uses_a_gpu_without_turns(
    bench: partitions.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVML's figures are invented, because a software GPU does not know the cages' process ids."""
    with running(bench, [30, 70], [SHORT_KERNEL, SHORT_KERNEL]) as (node, _):
        agent, gpu = agent_of(node), node.gpus[0]
        agent._desired = fleet_pb2.DesiredState()
        for grant in node.shares:
            sent = agent._desired.grants.add(
                allocation_id=grant.allocation_id.bytes, tenant_id=grant.tenant_id.bytes
            )
            sent.partitions.add(gpu_uuid=gpu.bytes, memory_bytes=1 << 30, compute_percent=50)
        bypassing = node.shares[0].allocation_id
        (pid,) = [s.pid for s in node.sessions() if s.allocation_id == bypassing]
        monkeypatch.setattr(agent.nvml, "process_use", lambda _: {gpu: {pid: 100.0}})

        def reported() -> list[uuid.UUID]:
            asyncio.run(agent.compare_processes())
            listed = asyncio.run(agent._sessions())
            return [s.allocation_id for s in listed.sessions if s.enforcement == "bypassed"]

        wait_until("report", lambda: reported() == [bypassing])
