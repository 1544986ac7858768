"""The fuzzer of the record decoder notices what it is there for."""

from __future__ import annotations

from pathlib import Path

from tests.suites.fuzz import build, run


def test_a_decoder_that_forgets_the_end_of_a_record_is_found(tmp_path: Path) -> None:
    build("records", tmp_path / "fuzz", planted=True)
    done = run("records", tmp_path / "fuzz", tmp_path, ["-max_total_time=100"])
    assert done.returncode != 0
    assert (
        "SUMMARY: AddressSanitizer" in done.stderr
        or "SUMMARY: UndefinedBehaviorSanitizer" in done.stderr
    )
