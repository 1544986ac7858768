"""Programs and allocations that outlive the client: `run --detach`, `allocation create`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import ROOT
from tests.system.conftest import DEMO, Pool

pytestmark = pytest.mark.system


@dataclass
class Commands:
    """The `busbar` command with state files of its own."""

    pool: Pool
    state: Path

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {
            "BUSBAR_CONTEXT": str(self.pool.context),
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(self.state),
        }
        line = [sys.executable, "-m", "remoting.cli.main", *arguments]
        return subprocess.run(
            line, env=env, capture_output=True, text=True, timeout=120, check=False
        )

    def printed(self, *arguments: str) -> str:
        done = self(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def runs(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self.printed("runs", "-o", "json"))
        return listed


@pytest.fixture
def busbar(pool: Pool, tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(pool, tmp_path)
    yield commands
    for run in commands.runs():
        commands("stop", run["id"])


def state_of(pool: Pool, allocation_id: str) -> str:
    state: str = pool.api.request("GET", f"allocations/{allocation_id}")["state"]
    return state


def test_detached_program_runs_on_and_leaves_its_output(busbar: Commands) -> None:
    run_id = busbar.printed("run", "-p", "5", "--detach", "--", DEMO, "work", "1")
    output = busbar.printed("logs", "-f", run_id)
    assert output.startswith("working\ncorrect after")
    (run,) = busbar.runs()
    assert run["state"] == "exited 0" and run["command"] == f"{DEMO} work 1"
    busbar.pool.wait("the release", lambda: state_of(busbar.pool, run_id) == "released")


def test_stop_ends_a_detached_program_and_its_allocation(busbar: Commands) -> None:
    run_id = busbar.printed("run", "-p", "5", "--detach", "--", "sleep", "600")
    pool = busbar.pool
    pool.wait("the start", lambda: state_of(pool, run_id) == "active")
    assert busbar.printed("stop") == f"{run_id} exited 143"
    pool.wait("the release", lambda: state_of(pool, run_id) == "released")


@pytest.mark.long
def test_program_that_ignores_the_request_is_killed(busbar: Commands) -> None:
    ignores = "trap '' TERM; echo ready; while :; do sleep 1; done"
    run_id = busbar.printed("run", "-p", "5", "--detach", "--", "sh", "-c", ignores)
    log = busbar.state / "busbar" / "runs" / run_id / "log"
    busbar.pool.wait("the program", lambda: "ready" in log.read_text())
    stopped = busbar("stop", run_id, "--grace", "1s")
    assert stopped.returncode == 1 and "was killed" in stopped.stderr
    assert [r["state"] for r in busbar.runs()] == ["killed"]
    assert state_of(busbar.pool, run_id) in ("releasing", "released")


def test_request_that_cannot_start_fails_at_once(busbar: Commands) -> None:
    refused = busbar("run", "-n", "9", "--detach", "--", DEMO)
    assert refused.returncode == 4 and "can never start" in refused.stderr
    assert busbar.runs() == []


def test_created_allocation_stays_without_a_client(busbar: Commands) -> None:
    pool = busbar.pool
    created = busbar.printed("allocation", "create", "-p", "5", "--lifetime", "1h")
    other = pool.api.request("POST", "allocations", {"percent": 5})["id"]
    with pool.short_lease():
        pool.wait("the end of the other one", lambda: state_of(pool, other) == "released")
    assert state_of(pool, created) == "active"
    for _ in range(2):
        assert "are correct" in busbar.printed("allocation", "attach", created, "--", DEMO, "add")
    pool.wait(
        "the end of its two programs, which may be reported late",
        lambda: len(pool.sessions(state="closed", allocation_id=created)) == 2,
    )
    busbar.printed("allocation", "release", created)  # would ask whether to end programs


def test_created_allocation_needs_an_end(busbar: Commands) -> None:
    refused = busbar("allocation", "create", "-p", "5")
    assert refused.returncode == 2 and "set --lifetime" in refused.stderr


def test_dry_run_says_where_a_request_would_be_placed(busbar: Commands) -> None:
    before = len(busbar.pool.api.items("allocations"))
    placed = busbar.printed("run", "-p", "5", "--dry-run", "--", "true")
    assert "/" in placed and placed.endswith("iB") and "5 % of the compute" in placed
    placed = busbar.printed("allocation", "create", "-n", "2", "--lifetime", "1h", "--dry-run")
    assert len(placed.splitlines()) == 2
    refused = busbar("run", "-n", "9", "--dry-run", "--", "true")
    assert refused.returncode == 4 and "can never start" in refused.stderr
    assert len(busbar.pool.api.items("allocations")) == before


def test_list_of_gpus_shows_free_shares_and_owners(busbar: Commands) -> None:
    created = busbar.printed("allocation", "create", "-p", "15", "--lifetime", "1h")
    busbar.pool.wait("the start", lambda: state_of(busbar.pool, created) == "active")
    listed = json.loads(busbar.printed("gpu", "list", "-o", "json"))
    shares = [(g["allocated_percent"], g["free_percent"], g["owners"]) for g in listed]
    busbar.printed("allocation", "release", created)
    me = busbar.pool.api.request("GET", "me")["username"]
    assert sorted(shares) == [(0, 100, ""), (15, 85, me)]
