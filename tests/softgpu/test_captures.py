"""Stream captures on the software GPU while other threads use the stream."""

from __future__ import annotations

from pathlib import Path

from tests.softgpu.direct_program import output_of

SOURCE = Path(__file__).with_name("capture_threads.c")


def test_stream_works_after_captures_during_calls_of_other_threads(tmp_path: Path) -> None:
    assert output_of(SOURCE, tmp_path) == "wrong: 0\n"
