"""`./bench gpu`: runs on the software GPU, comparison of results, generated page."""

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
    parts = ["conformance streams", "conformance graph_nodes", "driver", "properties", "partitions"]
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
    content: dict[str, Any] = json.loads((folder / "software-gpu.json").read_text())
    return content


@pytest.mark.long
def test_parts_run_natively_and_remoted(report: dict[str, Any]) -> None:
    rows = {r["name"]: r for r in report["results"]}
    assert rows["output of streams.c"]["same"] and rows["output of streams.c"]["runs"] == 3
    assert {"native", "shm", "tls"} <= rows["enqueue_p50_ns"].keys()
    assert all(
        "native" in rows[name]
        for part in PARTS
        if part.name == "properties"
        for name in part.figures
    )
    assert sum(rows[name]["shm"] for name in SHARES) == pytest.approx(100)
    assert report["machine"]["gpu"] == "software GPU"


@pytest.mark.long
def test_page_shows_report_and_marks_missing_rows(report: dict[str, Any]) -> None:
    text = page.render([report])
    lines = {cells[1].strip(): row for row in text.splitlines() if len(cells := row.split("|")) > 2}
    assert (
        page.NOT_MEASURED not in lines["output of streams.c"]
        and "equal" in lines["output of streams.c"]
    )
    assert page.NOT_MEASURED in lines["ResNet-50 losses"]


def test_page_without_report_marks_every_row() -> None:
    names = [name for section in page.expected().values() for name in section]
    assert len(names) == len(set(names)) > 50
    text = page.render([])
    assert all(f"| {name} | {page.NOT_MEASURED} |" in text for name in names)


def test_gpu_page_is_current() -> None:
    assert page.PAGE.read_text() == page.render(page.reports()), (
        "stale; run: python -m remoting.bench.gpu.page"
    )


def run_with_output(tmp_path: Path, native: str, remoted: str) -> list[dict[str, Any]]:
    """Run a part whose program prints these texts."""
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\neval "echo \\"\\$OUTPUT\\""\n')
    program.chmod(0o755)
    setting = Setting("", lambda source: source, 1)
    part = Part("planted", lambda _: [program], figures={"time": "ms"}, digests=("losses",))
    return run_part(part, setting, {"native": {"OUTPUT": native}, "shm": {"OUTPUT": remoted}}, 2)


def output(time: float, losses: str) -> str:
    return json.dumps({"figures": {"time": time}, "digests": {"losses": losses}})


def test_losses_that_differ_in_one_bit_are_detected(tmp_path: Path) -> None:
    time, losses = run_with_output(tmp_path, output(2, "a1"), output(3, "a0"))
    assert (time["native"], time["shm"], losses["same"]) == (2, 3, False)
    assert run_with_output(tmp_path, output(2, "a1"), output(3, "a1"))[1]["same"]


def test_invalid_or_incomplete_output_is_an_error(tmp_path: Path) -> None:
    assert (
        "no result for ['losses']"
        in run_with_output(tmp_path, output(2, "a1"), json.dumps({"figures": {"time": 1}}))[0][
            "error"
        ]
    )
    assert "error" in run_with_output(tmp_path, output(2, "a1"), "no JSON")[1]


def test_test_that_fails_only_remoted_is_listed() -> None:
    assert compare("suite", {"a", "b"}, {"a", "c"})["lost"] == ["b"]
    assert "error" in compare("suite", set(), {"a"})
