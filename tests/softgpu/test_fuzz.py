"""The fuzzer of the translator notices what it is there for."""

from __future__ import annotations

from pathlib import Path

from tests.suites.fuzz import build, run


def test_an_operand_list_that_forgets_its_length_is_found(tmp_path: Path) -> None:
    build("ptx", tmp_path / "fuzz", planted=True)
    done = run("ptx", tmp_path / "fuzz", tmp_path, ["-max_total_time=120"])
    assert done.returncode != 0
    assert (
        "SUMMARY: AddressSanitizer" in done.stderr
        or "SUMMARY: UndefinedBehaviorSanitizer" in done.stderr
    )
