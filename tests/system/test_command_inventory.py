"""The busbar command: inventory, apply, events, tasks, completion and `busbar api`."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.supervisor import ROOT
from tests.system.conftest import Pool
from tests.system.test_command import busbar

pytestmark = pytest.mark.system

DESIRED = """
kind: pool
name: applied
policies: [spread, pack]
max_idle_seconds: 900
projects: [applied]
---
kind: quota
subject_kind: project
subject: applied
quota_gpus: 1.5
---
kind: project
name: applied
department: lab
---
kind: department
name: lab
---
kind: reservation
name: applied-course
pool: default
project: applied
gpu_count: 1
starts_at: 2099-01-01T08:00:00Z
ends_at: 2099-01-01T10:00:00Z
"""


def run_json(pool: Pool, *arguments: str) -> Any:
    """Run a command with `-o json` and return its decoded output."""
    done = busbar(pool.context, *arguments, "-o", "json")
    assert done.returncode == 0, (arguments, done.stderr)
    return json.loads(done.stdout)


def test_apply_is_idempotent(pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "desired.yaml"
    file.write_text(DESIRED)
    dry_run = busbar(pool.context, "apply", "-f", str(file), "--dry-run")
    assert dry_run.returncode == 0 and "5 of 5 would change" in dry_run.stdout, dry_run.stderr
    assert not any(p["name"] == "applied" for p in run_json(pool, "pool", "list"))
    first = busbar(pool.context, "apply", "-f", str(file))
    assert first.returncode == 0 and "5 of 5 changed" in first.stdout, first.stderr
    again = busbar(pool.context, "apply", "-f", str(file))
    assert again.returncode == 0 and "0 of 5 changed" in again.stdout, again.stdout
    file.write_text(DESIRED.replace("900", "600"))
    dry_run = busbar(pool.context, "apply", "-f", str(file), "--dry-run")
    assert (
        "pool applied: changed max_idle_seconds from 900 to 600" in dry_run.stdout
        and "1 of 5 would change" in dry_run.stdout
    )
    changed = busbar(pool.context, "apply", "-f", str(file))
    assert "1 of 5 changed" in changed.stdout
    assert (
        next(p for p in run_json(pool, "pool", "list") if p["name"] == "applied")[
            "max_idle_seconds"
        ]
        == 600
    )
    assert busbar(pool.context, "pool", "delete", "applied", "--yes").returncode == 0


@pytest.mark.parametrize(
    ("content", "code", "word"),
    [
        ("kind: colour", 2, "kind must be one of"),
        ("kind: pool", 2, "pool needs name"),
        (":\n  - [", 2, "cannot be read"),
        ("kind: node\nname: absent", 3, "node absent not found"),
    ],
)
def test_apply_of_invalid_file_reports_reason(
    pool: Pool, tmp_path: Path, content: str, code: int, word: str
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(content)
    done = busbar(pool.context, "apply", "-f", str(file))
    assert done.returncode == code and word in done.stderr and "Traceback" not in done.stderr, (
        done.stderr
    )


def test_labels_and_pools_of_nodes_and_gpus_can_be_changed(pool: Pool) -> None:
    node = run_json(pool, "node", "list")[0]["name"]
    assert run_json(pool, "node", "label", node, "rack=r1", "tier=test")["labels"] == {
        "rack": "r1",
        "tier": "test",
    }
    assert run_json(pool, "node", "label", node, "tier-")["labels"] == {"rack": "r1"}
    assert [n["name"] for n in run_json(pool, "node", "list", "-l", "rack=r1")] == [node]
    assert busbar(pool.context, "node", "label", node, "nonsense").returncode == 2
    gpu = f"{node}/0"
    assert run_json(pool, "gpu", "label", gpu, "kind=small")["labels"] == {"kind": "small"}
    assert busbar(pool.context, "pool", "create", "aside").returncode == 0
    assert run_json(pool, "gpu", "move", gpu, "aside")["pool"] == "aside"
    assert [g["index"] for g in run_json(pool, "gpu", "list", "--pool", "aside")] == [0]
    assert busbar(pool.context, "pool", "delete", "aside", "--yes").returncode == 4
    assert run_json(pool, "gpu", "move", gpu, "default")["pool"] == "default"
    assert busbar(pool.context, "pool", "delete", "aside", "--yes").returncode == 0
    assert busbar(pool.context, "gpu", "show", f"{node}/99").returncode == 3


def test_output_formats_and_show_api(pool: Pool) -> None:
    table, wide = (
        busbar(pool.context, "node", "list", "-o", form).stdout for form in ("table", "wide")
    )
    assert "operating system" in wide and "operating system" not in table
    assert yaml.safe_load(busbar(pool.context, "pool", "list", "-o", "yaml").stdout) == run_json(
        pool, "pool", "list"
    )
    assert busbar(pool.context, "node", "list", "-o", "xml").returncode == 2
    shown = busbar(pool.context, "--show-api", "pool", "list")
    assert "curl --cacert ca.pem -X GET" in shown.stderr and "/api/v1/pools" in shown.stderr
    assert pool.api._client.headers["Authorization"].split()[1] not in shown.stderr


def test_api_command_sends_any_request(pool: Pool) -> None:
    created = run_json(pool, "api", "POST", "pools", "-d", '{"name": "by-hand"}')
    assert run_json(pool, "api", "GET", f"/api/v1/pools/{created['id']}")["name"] == "by-hand"
    assert len(run_json(pool, "api", "GET", "pools?limit=1")["items"]) == 1
    assert busbar(pool.context, "api", "DELETE", f"pools/{created['id']}").returncode == 0
    assert busbar(pool.context, "api", "GET", f"pools/{created['id']}").returncode == 3
    assert busbar(pool.context, "api", "POST", "pools", "-d", "{").returncode == 2


def test_top_status_whoami_and_metrics_print_values(pool: Pool) -> None:
    tables = busbar(pool.context, "top", "--once").stdout
    assert "GPUs," in tables and run_json(pool, "node", "list")[0]["name"] in tables
    assert (
        "loop_lag_p99_ms" in run_json(pool, "status")
        and "inventory.view" in run_json(pool, "whoami")["privileges"]
    )
    gpu = run_json(pool, "gpu", "list")[0]["id"]
    series = {
        i["metric"] for i in run_json(pool, "metrics", "gpu", gpu, "--resolution", "0")["items"]
    }
    assert {"utilisation_percent", "memory_used_bytes"} <= series
    assert (
        "memory_used_bytes"
        in busbar(pool.context, "metrics", "gpu", gpu, "--metric", "memory_used_bytes").stdout
    )
    assert busbar(pool.context, "metrics", "colour", gpu).returncode == 2


def test_node_is_assigned_to_site_and_has_notes(pool: Pool) -> None:
    name = run_json(pool, "node", "list")[0]["name"]
    assert (
        busbar(pool.context, "site", "create", "oslo", "--notes", "near the fjord").returncode == 0
    )
    assert (
        run_json(pool, "node", "set", name, "--site", "oslo", "--notes", "new fans")["site"]
        == "oslo"
    )
    refused = busbar(pool.context, "site", "delete", "oslo", "--yes")
    assert refused.returncode == 4 and "Move them to another site first" in refused.stderr
    assert (
        run_json(pool, "site", "set", "oslo", "--name", "bergen")["name"] == "bergen"
        and run_json(pool, "node", "show", name)["site"] == "bergen"
    )
    assert busbar(pool.context, "capacity", "--by", "site").stdout.count("bergen") == 1
    busbar(pool.context, "node", "set", name, "--site", "")
    assert busbar(pool.context, "site", "delete", "bergen", "--yes").returncode == 0
    assert run_json(pool, "gpu", "note", f"{name}/0", "rattles")["notes"] == "rattles"


def test_capacity_by_node_sums_to_total(pool: Pool) -> None:
    shown = json.loads(busbar(pool.context, "capacity", "--by", "node", "-o", "json").stdout)
    assert (
        shown["total"]["gpus"]["capacity"] == sum(g["present"] for g in pool.api.items("gpus")) > 0
    )
    lines = busbar(pool.context, "capacity").stdout
    assert "all" in lines and "GiB" in lines and "allocatable" in lines


def test_task_is_listed_shown_and_cancelled(pool: Pool) -> None:
    waiting = run_json(
        pool, "api", "POST", "allocations", "-d", '{"gpu_count": 16, "allow_pending": true}'
    )
    task = next(
        t
        for t in run_json(pool, "task", "list", "--state", "running")
        if t["path"].endswith(waiting["id"])
    )
    assert [line["message"] for line in run_json(pool, "task", "log", task["id"])] == [
        waiting["waiting_reason"]
    ]
    assert busbar(pool.context, "task", "cancel", task["id"]).stdout.strip() == "cancelled"
    assert (
        run_json(pool, "task", "show", task["id"])["state"] == "cancelled"
        and busbar(pool.context, "task", "cancel", task["id"]).returncode == 4
    )
    assert (
        run_json(pool, "allocation", "show", waiting["id"], "--wait", "60s")["state"] == "released"
    )


@pytest.fixture
def watching(pool: Pool) -> Iterator[subprocess.Popen[str]]:
    env = os.environ | {
        "BUSBAR_CONTEXT": str(pool.context),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
    }
    line = [
        sys.executable,
        "-m",
        "remoting.cli.main",
        "--show-api",
        "events",
        "-w",
        "--kind",
        "pool.created",
    ]
    process = subprocess.Popen(
        line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait()


def test_watch_prints_events_as_they_occur(pool: Pool, watching: subprocess.Popen[str]) -> None:
    assert watching.stderr is not None and watching.stdout is not None
    assert "/api/v1/watch" in watching.stderr.readline()
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(
        target=lambda: [lines.put(line) for line in watching.stdout or ()], daemon=True
    ).start()
    # The command prints the request before the stream is open, so early pools may be missed.
    for n in range(20):
        busbar(pool.context, "pool", "create", f"seen-{n}")
        with contextlib.suppress(queue.Empty):
            assert "Pool seen-" in lines.get(timeout=2)
            return
    raise AssertionError("no event received")


def test_completion_lists_pool_names(pool: Pool) -> None:
    env = {
        "_BUSBAR_COMPLETE": "complete_bash",
        "COMP_WORDS": "busbar pool set de",
        "COMP_CWORD": "3",
    }
    full = os.environ | {"BUSBAR_CONTEXT": str(pool.context), "PYTHONPATH": str(ROOT)} | env
    done = subprocess.run(
        [sys.executable, "-m", "remoting.cli.main"],
        env=full,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["default"], done.stderr
