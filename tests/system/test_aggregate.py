"""One `busbar run` with two GPUs: of one node, and of two nodes with one free GPU each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.supervisor import ROOT
from tests.remoting.conftest import compiled  # noqa: F401 - a fixture
from tests.system.conftest import Pool, started

pytestmark = pytest.mark.system


@pytest.fixture
def two_nodes(tmp_path: Path) -> Iterator[Pool]:
    """Two agents and two launchers on this machine, one GPU each."""
    with started(tmp_path, 53443, {"east": 1, "west": 1}) as pool:
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
        "30",
        "--",
        str(program),
    ]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def places(pool: Pool) -> list[tuple[str, str]]:
    """Node and GPU of each partition of the newest allocation, as its event tells after its release."""
    return [(p["node"], p["gpu_id"]) for p in pool.api.items("partitions")]


def test_two_partitions_of_one_node_are_on_two_gpus(
    pool: Pool, compiled: Callable[[str], Path]
) -> None:  # noqa: F811
    done = run(pool, compiled("two_devices"))
    assert done.returncode == 0 and "devices 2" in done.stdout and done.stdout.endswith("done\n"), (
        done.stdout + done.stderr
    )


def test_two_nodes_with_one_free_gpu_each_serve_one_program(
    two_nodes: Pool, compiled: Callable[[str], Path]
) -> None:  # noqa: F811
    allocation = two_nodes.api.request("POST", "allocations", {"gpu_count": 2, "percent": 50})
    two_nodes.wait(
        "the allocation",
        lambda: (
            two_nodes.api.request("GET", f"allocations/{allocation['id']}")["state"] == "active"
        ),
    )
    held = places(two_nodes)
    assert (
        len(held) == 2
        and len({node for node, _ in held}) == 2
        and len({gpu for _, gpu in held}) == 2
    )
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
