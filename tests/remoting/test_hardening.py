"""The rows of `./bench hardening` for sessions, in a short form, and planted faults.

The fault is what the row guards against. A row that does not notice it is worthless.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.hardening import admission, full_pools
from tests.hardening.processor_groups import ProcessorGroups
from tests.suites import soak_counts, soak_starvation

pytestmark = pytest.mark.long
SESSIONS, MEASURED = 12, 20
SHARE_OF_COUNTS = 0.02


def can_limit_processor_time() -> bool:
    try:
        ProcessorGroups().remove()
    except OSError:
        return False
    return True


needs_groups = pytest.mark.skipif(
    not can_limit_processor_time(), reason="needs the right to make control groups"
)


def missed(rows: list[dict[str, Any]]) -> list[str]:
    return [r["name"] for r in rows if not r["met"]]


@needs_groups
def test_hostile_sessions_do_not_delay_admission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bench has the limit; here other tests use the processor at the same time."""
    monkeypatch.setattr(admission, "MAX_RISE_MS", 1000)
    rows = admission.measure(tmp_path, SESSIONS, MEASURED)
    assert len(rows) == 2 and not missed(rows), rows


@needs_groups
def test_admission_notices_sessions_without_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlimited = partial(admission.make_spinning, share=None)
    monkeypatch.setattr(admission, "make_spinning", unlimited)
    sessions = SESSIONS * len(os.sched_getaffinity(0))
    rows = admission.measure(tmp_path, sessions, MEASURED)
    assert "admission_spinning_p95_rise_ms" in missed(rows)


def test_full_pools_end_in_time(tmp_path: Path) -> None:
    rows = full_pools.measure_counts(tmp_path, SHARE_OF_COUNTS)
    assert len(rows) == 6 and not missed(rows), rows


def test_counts_notice_a_program_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak_counts, "SECONDS", 0.01)
    assert len(missed(full_pools.measure_counts(tmp_path, SHARE_OF_COUNTS))) == 6


def test_starved_session_progresses() -> None:
    rows = full_pools.measure_starvation(6, share=0.2)
    assert len(rows) == 2 and not missed(rows), rows


def test_starvation_notices_a_session_server_that_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(program: subprocess.Popen[str], server: int, seconds: float, share: float) -> float:
        os.kill(server, signal.SIGSTOP)
        time.sleep(soak_starvation.LONGEST_GAP_SECONDS + 1)
        os.kill(server, signal.SIGCONT)
        return share

    monkeypatch.setattr(soak_starvation, "starve", stop)
    rows = full_pools.measure_starvation(6)
    assert len(missed(rows)) == 2 and all("no completion" in r["problem"] for r in rows)
