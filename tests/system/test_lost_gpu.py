"""A GPU that falls off the bus while the agent runs or before it starts, and returns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.conftest import DEMO, Pool

pytestmark = pytest.mark.system

LOST = 0
WHOLE = {"percent": 100, "hold": "lifetime", "lifetime_seconds": 300}


def present(pool: Pool) -> dict[int, bool]:
    return {g["index"]: g["present"] for g in pool.api.items("gpus")}


def request_whole_gpu(pool: Pool) -> None:
    pool.api.request("POST", "allocations", WHOLE | {"allow_pending": True})


def granted(pool: Pool) -> list[int]:
    return [p["gpu_index"] for p in pool.api.items("partitions")]


def connections(pool: Pool) -> int:
    """Return how often agents of the node have connected."""
    return (pool.stack.node.logs / "agent.log").read_text().count("connected to")


@pytest.fixture
def lost_gpu(pool: Pool) -> Iterator[None]:
    """One of the GPUs of the node is lost until the end of the test."""
    everything = dict.fromkeys(present(pool), True)
    assert present(pool) == everything and len(everything) > 1
    conditions = Path(pool.stack.node.service.runtime) / "softgpu" / f"gpu{LOST}.conditions"
    conditions.write_text("removed 1\n")
    try:
        yield
    finally:
        conditions.unlink()
        pool.wait("the return of the GPU", lambda: present(pool) == everything)


def wait_until_missing(pool: Pool) -> None:
    others = {index: index != LOST for index in present(pool)}
    pool.wait("the loss of the GPU", lambda: present(pool) == others)


@pytest.mark.usefixtures("lost_gpu")
def test_lost_gpu_is_missing_and_not_granted(pool: Pool) -> None:
    wait_until_missing(pool)
    (gpu,) = pool.api.items("gpus", present="false")
    assert "gpu.gone" in {e["kind"] for e in pool.api.items("events", object_id=gpu["id"])}
    for _ in present(pool):
        request_whole_gpu(pool)
    pool.wait("grants of all others", lambda: len(granted(pool)) == len(present(pool)) - 1)
    assert LOST not in granted(pool)
    (waiting,) = pool.api.items("allocations", state="queued")
    assert waiting["waiting_reason"]


@pytest.mark.usefixtures("lost_gpu")
def test_agent_that_starts_while_a_gpu_is_lost_serves_the_others(pool: Pool) -> None:
    before = connections(pool)
    pool.kill("agent")
    pool.wait("the connection of the agent", lambda: connections(pool) > before)
    wait_until_missing(pool)
    code, out, err = pool.finish(pool.start(100, DEMO, "add"))
    assert code == 0 and "correct" in out, err
