"""The appliance's own helpers die: it goes on, starts them again, and nobody's work is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.system.conftest import Pool

pytestmark = pytest.mark.system


def children(pool: Pool, module: str) -> list[int]:
    """Of the appliance, those that run this module."""
    assert pool.stack.appliance.process is not None
    pid = pool.stack.appliance.process.pid
    found = [
        int(p)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for p in (task / "children").read_text().split()
    ]
    return [
        p for p in found if module.encode() in Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")
    ]


def kill(pool: Pool, module: str) -> None:
    """Returns when there is another."""
    (old,) = children(pool, module)
    os.kill(old, signal.SIGKILL)
    pool.wait(
        f"another {module}", lambda: (found := children(pool, module)) != [] and found != [old]
    )


def test_the_gateway_dies_and_agents_come_back_to_another(pool: Pool) -> None:
    working = pool.start_working(10, 6)
    kill(pool, "appliance.fleet.gateway")
    made = pool.api.request("POST", "allocations", {"percent": 5}, wait="30")
    assert made["state"] == "active", "the node was not told, or did not report"
    pool.api.request("DELETE", f"allocations/{made['id']}", None, wait="30")
    status, _, err = pool.finish(working)
    assert status == 0, err


def test_the_web_dies_and_another_knows_who_was_heard_while_programs_go_on(pool: Pool) -> None:
    working = pool.start_working(10, 6)
    kill(pool, "appliance.web")
    pool.wait("pages", lambda: bool(pool.api.items("nodes")))
    assert pool.api.items("nodes")[0]["reachable"]
    pool.wait("readings", lambda: all(g["metrics"] for g in pool.api.items("gpus")))
    made = pool.api.request("POST", "allocations", {"percent": 5}, wait="30")
    assert made["state"] == "active"
    pool.api.request("DELETE", f"allocations/{made['id']}", None, wait="30")
    status, _, err = pool.finish(working)
    assert status == 0, err


def test_what_a_change_answers_has_readings_that_only_the_web_knows(pool: Pool) -> None:
    pool.wait("readings", lambda: all(g["metrics"] for g in pool.api.items("gpus")))
    gpu = pool.api.items("gpus")[0]
    assert (
        pool.api.request("PATCH", f"gpus/{gpu['id']}", {"notes": "looked at"})["metrics"].keys()
        == gpu["metrics"].keys()
    )


def test_they_end_with_the_appliance(pool: Pool) -> None:
    old = children(pool, "appliance.web") + children(pool, "appliance.fleet.gateway")
    assert len(old) == 2
    pool.kill("appliance")
    pool.wait("their end", lambda: not any(Path(f"/proc/{p}").exists() for p in old))
    pool.wait("the next", lambda: bool(pool.api.items("nodes")))
