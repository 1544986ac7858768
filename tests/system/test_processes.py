"""Kills of the gateway and the HTTP server: the controller restarts them and no work is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.system.conftest import Pool

pytestmark = pytest.mark.system

HELD = {"percent": 5, "hold": "lifetime", "lifetime_seconds": 300}
"""An allocation without a lease: on a busy machine its node needs longer to reconnect."""


def children(pool: Pool, module: str) -> list[int]:
    """Return the ids of the appliance's child processes that run this module."""
    assert pool.stack.appliance.process is not None
    pid = pool.stack.appliance.process.pid
    found = [
        int(p)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for p in (task / "children").read_text().split()
    ]
    return [p for p in found if module.encode() in command_line(p)]


def command_line(pid: int) -> list[bytes]:
    """Return the command line of a process; it is empty once the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def kill(pool: Pool, module: str) -> None:
    """Kill the process of a module and block until its successor runs."""
    (old,) = children(pool, module)
    os.kill(old, signal.SIGKILL)
    pool.wait(
        f"another {module}", lambda: (found := children(pool, module)) != [] and found != [old]
    )


def test_agents_reconnect_after_gateway_is_killed(pool: Pool) -> None:
    working = pool.start_working(10, 6)
    kill(pool, "appliance.fleet.gateway")
    allocation = pool.api.request("POST", "allocations", HELD, wait="60")
    assert allocation["state"] == "active", "the node received no desired state or sent no report"
    pool.api.request("DELETE", f"allocations/{allocation['id']}", None, wait="30")
    status, _, err = pool.finish(working)
    assert status == 0, err


def test_restarted_http_server_has_heartbeats_and_metrics(pool: Pool) -> None:
    working = pool.start_working(10, 6)
    kill(pool, "appliance.http.server")
    pool.wait("the REST API", lambda: bool(pool.api.items("nodes")))
    assert pool.api.items("nodes")[0]["reachable"]
    pool.wait("metrics", lambda: all(g["metrics"] for g in pool.api.items("gpus")))
    allocation = pool.api.request("POST", "allocations", HELD, wait="60")
    assert allocation["state"] == "active"
    pool.api.request("DELETE", f"allocations/{allocation['id']}", None, wait="30")
    status, _, err = pool.finish(working)
    assert status == 0, err


def test_response_to_patch_includes_metrics_of_http_server(pool: Pool) -> None:
    pool.wait("metrics", lambda: all(g["metrics"] for g in pool.api.items("gpus")))
    gpu = pool.api.items("gpus")[0]
    assert (
        pool.api.request("PATCH", f"gpus/{gpu['id']}", {"notes": "inspected"})["metrics"].keys()
        == gpu["metrics"].keys()
    )


def test_child_processes_end_with_controller(pool: Pool) -> None:
    old = children(pool, "appliance.http.server") + children(pool, "appliance.fleet.gateway")
    assert len(old) == 2
    pool.kill("appliance")
    pool.wait(
        "the end of the child processes", lambda: not any(Path(f"/proc/{p}").exists() for p in old)
    )
    pool.wait("the restarted appliance", lambda: bool(pool.api.items("nodes")))
