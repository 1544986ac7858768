"""Format and rotation of logs."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from nodes.log_format import JsonFormatter, TextFormatter
from nodes.log_rotation import rotate_if_large
from nodes.processes import SupervisedProcess
from nodes.top_level import exit_status_of

MIB = 1 << 20
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ [\w.]+: .*")
HOSTILE = "x\n2026-01-01T00:00:00.000Z INFO agent: forged\x1b[2J\r"
PRINTS_WITHOUT_END = "while True: print('x' * 1023)"


def record(message: str, *, failed: bool = False) -> logging.LogRecord:
    try:
        raise ValueError(message)
    except ValueError:
        info = sys.exc_info() if failed else None
    return logging.LogRecord("agent", logging.INFO, __file__, 1, "%s", (message,), info)


def test_text_line_has_time_level_and_logger() -> None:
    assert LINE.fullmatch(TextFormatter().format(record("started")))


def test_hostile_text_makes_no_second_line() -> None:
    line = TextFormatter().format(record(HOSTILE))
    assert line.isprintable() and "x\\n2026" in line
    assert json.loads(JsonFormatter().format(record(HOSTILE)))["message"] == HOSTILE
    assert JsonFormatter().format(record(HOSTILE)).isprintable()


def test_traceback_is_indented_or_a_field() -> None:
    first, *rest = TextFormatter().format(record(HOSTILE, failed=True)).split("\n")
    assert LINE.fullmatch(first) and rest and all(line.startswith("    ") for line in rest)
    assert "ValueError" in json.loads(JsonFormatter().format(record("x", failed=True)))["traceback"]


def test_failure_of_a_service_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("broken")

    assert exit_status_of("busbar-agent", fail, is_service=True) == 1
    (logged,) = caplog.records
    assert "ValueError: broken" in logged.message and logged.exc_info


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBAR_LOG_MAX_MIB", "1")
    monkeypatch.setenv("BUSBAR_LOG_FILES", "2")


def sizes(log: Path) -> dict[str, int]:
    return {p.name: p.stat().st_size for p in log.parent.glob("a.log*")}


def test_large_log_is_rotated_and_the_oldest_deleted(limits: None, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    for text in ("first", "second", "third"):
        log.write_text(text.ljust(MIB + 1))
        assert rotate_if_large(log)
    assert sizes(log) == {"a.log": 0, "a.log.1": MIB + 1, "a.log.2": MIB + 1}
    assert (tmp_path / "a.log.1").read_text().startswith("third")
    assert (tmp_path / "a.log.2").read_text().startswith("second")
    log.write_text("small")
    assert not rotate_if_large(log) and log.read_text() == "small"


def test_log_that_grew_fast_leaves_a_bounded_copy(limits: None, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(bytes(8 * MIB) + b"end")
    rotate_if_large(log)
    assert sizes(log) == {"a.log": 0, "a.log.1": 2 * MIB}
    assert (tmp_path / "a.log.1").read_bytes().endswith(b"end")


def test_log_of_a_process_that_prints_without_end_is_bounded(limits: None, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    command = [sys.executable, "-c", PRINTS_WITHOUT_END]
    process = SupervisedProcess("a", command, dict(os.environ), log)
    process.start()
    try:
        wait_for("two rotations", (tmp_path / "a.log.2").exists, log, 30)
    finally:
        process.stop()
    assert max(size for name, size in sizes(log).items() if name != "a.log") <= 2 * MIB
    assert set(sizes(log)) == {"a.log", "a.log.1", "a.log.2"}


def test_program_that_cannot_be_started_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure that repeats is logged once."""
    program, log = tmp_path / "program", tmp_path / "a.log"
    tries = tmp_path / "tries"
    tries.touch()

    def note_try() -> None:
        with tries.open("a") as file:
            file.write("x")

    process = SupervisedProcess("a", [str(program)], dict(os.environ), log, in_child=note_try)
    process.start()
    try:
        wait_for("a third try", lambda: len(tries.read_text()) > 2, log, 60)
        assert caplog.text.count("a not started") == 1
        written = tmp_path / "written"
        written.write_text("#!/bin/sh\necho started\nsleep 100\n")
        written.chmod(0o755)
        written.rename(program)
        wait_for("a start", lambda: "started" in log.read_text(), log, 60)
    finally:
        process.stop()


@pytest.mark.skipif(os.getuid() != 0, reason="only root mounts a small file system")
def test_log_on_a_full_disk_is_truncated_without_a_copy(limits: None, tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(tmp_path)]
    subprocess.run(mount, check=True)
    try:
        log = tmp_path / "a.log"
        log.write_bytes(bytes(2 * MIB))
        assert rotate_if_large(log)
        assert sizes(log) == {"a.log": 0}
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)
