"""`busbar run` with two GPUs on one node and on two nodes with one free GPU each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.supervisor import ROOT
from tests.ports import port
from tests.remoting.conftest import compiled  # noqa: F401 - a fixture
from tests.system.conftest import Pool, started

pytestmark = pytest.mark.system


@pytest.fixture
def two_nodes(tmp_path: Path) -> Iterator[Pool]:
    """A stack with two nodes on this machine, one GPU each."""
    with started(tmp_path, port(100), {"east": 1, "west": 1}) as pool:
        yield pool


def run(pool: Pool, program: Path) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"BUSBAR_CONTEXT": str(pool.context), "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "remoting.cli.main",
        "run",
        "-n",
        "2",
        "-p",
        "50",
        "--timeout",
        "30s",
        "--",
        str(program),
    ]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def partition_gpus(pool: Pool) -> list[tuple[str, str]]:
    """Return node and GPU id of each partition."""
    return [(p["node"], p["gpu_id"]) for p in pool.api.items("partitions")]


def test_program_sees_two_devices_of_one_node(
    pool: Pool,
    compiled: Callable[[str], Path],  # noqa: F811
) -> None:
    done = run(pool, compiled("two_devices"))
    assert done.returncode == 0 and "devices 2" in done.stdout and done.stdout.endswith("done\n"), (
        done.stdout + done.stderr
    )


def test_program_uses_one_gpu_of_each_of_two_nodes(
    two_nodes: Pool,
    compiled: Callable[[str], Path],  # noqa: F811
) -> None:
    allocation = two_nodes.api.request("POST", "allocations", {"gpu_count": 2, "percent": 50})
    two_nodes.wait(
        "the allocation",
        lambda: (
            two_nodes.api.request("GET", f"allocations/{allocation['id']}")["state"] == "active"
        ),
    )
    held = partition_gpus(two_nodes)
    assert len(held) == 2
    assert len({node for node, _ in held}) == 2
    assert len({gpu for _, gpu in held}) == 2
    done = run(two_nodes, compiled("two_devices"))
    assert (
        done.returncode == 0
        and "devices 2" in done.stdout
        and "WRONG" not in done.stdout
        and done.stdout.endswith("done\n")
    ), done.stdout + done.stderr
    two_nodes.wait("the end of both sessions", lambda: len(two_nodes.sessions(state="closed")) == 2)
    assert len({s["node"] for s in two_nodes.sessions(state="closed")}) == 2
    two_nodes.api.request("DELETE", f"allocations/{allocation['id']}")
