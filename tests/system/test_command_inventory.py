"""The busbar command beyond `run`: the inventory, files that are applied, what happens, and any operation at all."""

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

WANTED = """
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


def said(pool: Pool, *arguments: str) -> Any:
    done = busbar(pool.context, *arguments, "-o", "json")
    assert done.returncode == 0, (arguments, done.stderr)
    return json.loads(done.stdout)


def test_a_file_is_applied_once_and_a_second_time_changes_nothing(
    pool: Pool, tmp_path: Path
) -> None:
    file = tmp_path / "wanted.yaml"
    file.write_text(WANTED)
    tried = busbar(pool.context, "apply", "-f", str(file), "--dry-run")
    assert tried.returncode != 0, "a project that is not there yet cannot be tried with its quota"
    assert not any(p["name"] == "applied" for p in said(pool, "pool", "list"))
    first = busbar(pool.context, "apply", "-f", str(file))
    assert first.returncode == 0 and "5 of 5 changed" in first.stdout, first.stderr
    again = busbar(pool.context, "apply", "-f", str(file))
    assert again.returncode == 0 and "0 of 5 changed" in again.stdout, again.stdout
    file.write_text(WANTED.replace("900", "600"))
    tried = busbar(pool.context, "apply", "-f", str(file), "--dry-run")
    assert (
        "pool applied: changed max_idle_seconds from 900 to 600" in tried.stdout
        and "1 of 5 would change" in tried.stdout
    )
    changed = busbar(pool.context, "apply", "-f", str(file))
    assert "1 of 5 changed" in changed.stdout
    assert (
        next(p for p in said(pool, "pool", "list") if p["name"] == "applied")["max_idle_seconds"]
        == 600
    )
    assert busbar(pool.context, "pool", "delete", "applied").returncode == 0


@pytest.mark.parametrize(
    ("content", "code", "word"),
    [
        ("kind: colour", 2, "needs a kind"),
        ("kind: pool", 2, "lacks name"),
        (":\n  - [", 2, "cannot be read"),
        ("kind: node\nname: nobody", 3, "no node nobody"),
    ],
)
def test_a_file_that_cannot_be_applied_says_why(
    pool: Pool, tmp_path: Path, content: str, code: int, word: str
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(content)
    done = busbar(pool.context, "apply", "-f", str(file))
    assert done.returncode == code and word in done.stderr and "Traceback" not in done.stderr, (
        done.stderr
    )


def test_labels_and_pools_of_nodes_and_gpus(pool: Pool) -> None:
    node = said(pool, "node", "list")[0]["name"]
    assert said(pool, "node", "label", node, "rack=r1", "tier=test")["labels"] == {
        "rack": "r1",
        "tier": "test",
    }
    assert said(pool, "node", "label", node, "tier-")["labels"] == {"rack": "r1"}
    assert [n["name"] for n in said(pool, "node", "list", "-l", "rack=r1")] == [node]
    assert busbar(pool.context, "node", "label", node, "nonsense").returncode == 2
    gpu = f"{node}/0"
    assert said(pool, "gpu", "label", gpu, "kind=small")["labels"] == {"kind": "small"}
    assert busbar(pool.context, "pool", "create", "aside").returncode == 0
    assert said(pool, "gpu", "move", gpu, "aside")["pool"] == "aside"
    assert [g["index"] for g in said(pool, "gpu", "list", "--pool", "aside")] == [0]
    assert busbar(pool.context, "pool", "delete", "aside").returncode == 4
    assert said(pool, "gpu", "move", gpu, "default")["pool"] == "default"
    assert busbar(pool.context, "pool", "delete", "aside").returncode == 0
    assert busbar(pool.context, "gpu", "show", f"{node}/99").returncode == 3


def test_formats(pool: Pool) -> None:
    table, wide = (
        busbar(pool.context, "node", "list", "-o", form).stdout for form in ("table", "wide")
    )
    assert "operating system" in wide and "operating system" not in table
    assert yaml.safe_load(busbar(pool.context, "pool", "list", "-o", "yaml").stdout) == said(
        pool, "pool", "list"
    )
    assert busbar(pool.context, "node", "list", "-o", "xml").returncode == 2
    shown = busbar(pool.context, "--show-api", "pool", "list")
    assert "curl --cacert ca.pem -X GET" in shown.stderr and "/api/v1/pools" in shown.stderr
    assert pool.api._client.headers["Authorization"].split()[1] not in shown.stderr


def test_any_operation_can_be_called(pool: Pool) -> None:
    made = said(pool, "api", "POST", "pools", "-d", '{"name": "by-hand"}')
    assert said(pool, "api", "GET", f"/api/v1/pools/{made['id']}")["name"] == "by-hand"
    assert len(said(pool, "api", "GET", "pools?limit=1")["items"]) == 1
    assert busbar(pool.context, "api", "DELETE", f"pools/{made['id']}").returncode == 0
    assert busbar(pool.context, "api", "GET", f"pools/{made['id']}").returncode == 3
    assert busbar(pool.context, "api", "POST", "pools", "-d", "{").returncode == 2


def test_top_status_whoami_and_metrics(pool: Pool) -> None:
    picture = busbar(pool.context, "top", "--once").stdout
    assert "GPUs," in picture and said(pool, "node", "list")[0]["name"] in picture
    assert (
        "loop_lag_p99_ms" in said(pool, "status")
        and "inventory.view" in said(pool, "whoami")["privileges"]
    )
    gpu = said(pool, "gpu", "list")[0]["id"]
    series = {i["metric"] for i in said(pool, "metrics", "gpu", gpu, "--resolution", "0")["items"]}
    assert {"utilisation_percent", "memory_used_bytes"} <= series
    assert (
        "memory_used_bytes"
        in busbar(pool.context, "metrics", "gpu", gpu, "--metric", "memory_used_bytes").stdout
    )
    assert busbar(pool.context, "metrics", "colour", gpu).returncode == 2


def test_a_node_stands_at_a_site_and_has_notes(pool: Pool) -> None:
    name = said(pool, "node", "list")[0]["name"]
    assert (
        busbar(pool.context, "site", "create", "oslo", "--notes", "near the fjord").returncode == 0
    )
    assert (
        said(pool, "node", "set", name, "--site", "oslo", "--notes", "new fans")["site"] == "oslo"
    )
    refused = busbar(pool.context, "site", "delete", "oslo")
    assert refused.returncode == 4 and "move them first" in refused.stderr
    assert (
        said(pool, "site", "set", "oslo", "--name", "bergen")["name"] == "bergen"
        and said(pool, "node", "show", name)["site"] == "bergen"
    )
    assert busbar(pool.context, "capacity", "--by", "site").stdout.count("bergen") == 1
    busbar(pool.context, "node", "set", name, "--site", "")
    assert busbar(pool.context, "site", "delete", "bergen").returncode == 0
    assert said(pool, "gpu", "note", f"{name}/0", "rattles")["notes"] == "rattles"


def test_capacity_by_node(pool: Pool) -> None:
    shown = json.loads(busbar(pool.context, "capacity", "--by", "node", "-o", "json").stdout)
    assert (
        shown["total"]["gpus"]["capacity"] == sum(g["present"] for g in pool.api.items("gpus")) > 0
    )
    lines = busbar(pool.context, "capacity").stdout
    assert "all" in lines and "GiB" in lines and "allocatable" in lines


def test_tasks_are_shown_logged_and_cancelled(pool: Pool) -> None:
    waiting = said(pool, "api", "POST", "allocations", "-d", '{"gpu_count": 16}')
    task = next(
        t
        for t in said(pool, "task", "list", "--state", "running")
        if t["path"].endswith(waiting["id"])
    )
    assert [line["message"] for line in said(pool, "task", "log", task["id"])] == [
        waiting["waiting_reason"]
    ]
    assert busbar(pool.context, "task", "cancel", task["id"]).stdout.strip() == "cancelled"
    assert (
        said(pool, "task", "show", task["id"])["state"] == "cancelled"
        and busbar(pool.context, "task", "cancel", task["id"]).returncode == 4
    )
    assert said(pool, "allocation", "show", waiting["id"], "--wait", "5")["state"] == "released"


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


def test_events_go_on_as_they_happen(pool: Pool, watching: subprocess.Popen[str]) -> None:
    assert watching.stderr is not None and watching.stdout is not None
    assert "/api/v1/watch" in watching.stderr.readline()
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(
        target=lambda: [lines.put(line) for line in watching.stdout or ()], daemon=True
    ).start()
    for n in range(
        20
    ):  # the stream opens after the command has said so: one of these is the first that it sees
        busbar(pool.context, "pool", "create", f"seen-{n}")
        with contextlib.suppress(queue.Empty):
            assert "Pool seen-" in lines.get(timeout=2)
            return
    raise AssertionError("no event came")


def test_names_are_completed(pool: Pool) -> None:
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
