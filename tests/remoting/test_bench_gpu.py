"""`./bench gpu`: its parts run on the software GPU, its verdict catches a difference, and its page shows in red what no GPU has shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import ROOT
from remoting.bench.gpu import page
from remoting.bench.gpu.rows import PARTS, SHARES, Part, Setting
from remoting.bench.gpu.runs import run_part
from remoting.bench.gpu.suites import compare


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("gpu")
    parts = ["conformance streams", "conformance graph_nodes", "driver", "questions", "partitions"]
    command = [
        sys.executable,
        "-m",
        "remoting.bench.gpu",
        "--software",
        "--repetitions",
        "1",
        "--seconds",
        "2",
        "--output",
        str(folder),
        "--only",
        *parts,
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made: dict[str, Any] = json.loads((folder / "software-gpu.json").read_text())
    return made


def test_its_parts_run_natively_and_remoted(report: dict[str, Any]) -> None:
    rows = {r["name"]: r for r in report["results"]}
    assert rows["streams.c prints"]["same"] and rows["streams.c prints"]["runs"] == 3
    assert {"native", "shm", "tls"} <= rows["enqueue_p50_ns"].keys()
    assert all(
        "native" in rows[name]
        for part in PARTS
        if part.name == "questions"
        for name in part.figures
    )
    assert sum(rows[name]["shm"] for name in SHARES) == pytest.approx(100)
    assert report["machine"]["gpu"] == "software GPU"


def test_the_page_shows_a_report_and_marks_what_is_missing(report: dict[str, Any]) -> None:
    text = page.render([report])
    lines = {cells[1].strip(): row for row in text.splitlines() if len(cells := row.split("|")) > 2}
    assert (
        page.UNPROVEN not in lines["streams.c prints"] and "the same" in lines["streams.c prints"]
    )
    assert page.UNPROVEN in lines["ResNet-50 losses"]


def test_without_a_report_every_row_is_unproven() -> None:
    names = [name for section in page.expected().values() for name in section]
    assert len(names) == len(set(names)) > 50
    text = page.render([])
    assert all(f"| {name} | {page.UNPROVEN} |" in text for name in names)


def test_the_page_is_fresh() -> None:
    assert page.PAGE.read_text() == page.render(page.reports()), (
        "python -m remoting.bench.gpu.page writes it"
    )


def part_that_says(tmp_path: Path, native: str, remoted: str) -> list[dict[str, Any]]:
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\neval "echo \\"\\$SAID\\""\n')
    program.chmod(0o755)
    setting = Setting("", lambda source: source, 1)
    part = Part("planted", lambda _: [program], figures={"time": "ms"}, digests=("losses",))
    return run_part(part, setting, {"native": {"SAID": native}, "shm": {"SAID": remoted}}, 2)


def said(time: float, losses: str) -> str:
    return json.dumps({"figures": {"time": time}, "digests": {"losses": losses}})


def test_losses_that_differ_in_one_bit_are_noticed(tmp_path: Path) -> None:
    time, losses = part_that_says(tmp_path, said(2, "a1"), said(3, "a0"))
    assert (time["native"], time["shm"], losses["same"]) == (2, 3, False)
    assert part_that_says(tmp_path, said(2, "a1"), said(3, "a1"))[1]["same"]


def test_a_run_that_breaks_or_says_nothing_is_an_error(tmp_path: Path) -> None:
    assert (
        "says nothing of ['losses']"
        in part_that_says(tmp_path, said(2, "a1"), json.dumps({"figures": {"time": 1}}))[0]["error"]
    )
    assert "error" in part_that_says(tmp_path, said(2, "a1"), "no JSON")[1]


def test_a_test_that_is_lost_when_remoted_is_named() -> None:
    assert compare("suite", {"a", "b"}, {"a", "c"})["lost"] == ["b"]
    assert "error" in compare("suite", set(), {"a"})
