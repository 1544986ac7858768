"""The threads of the software GPU that run streams."""

from __future__ import annotations

from pathlib import Path

from tests.softgpu.direct_program import output_of

SOURCE = Path(__file__).with_name("stream_threads.c")


def test_thread_that_was_busy_last_runs_the_next_operation(tmp_path: Path) -> None:
    assert output_of(SOURCE, tmp_path) == "on other threads: 0\n"
