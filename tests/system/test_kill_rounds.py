"""Rounds of killing the appliance with requests in flight.

No granted allocation is lost, none is granted twice, and all books agree about their sizes. Another
test removes a guard in the code and expects the rounds to detect it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.runtime.failpoints import NAMES
from tests.load.appliance import Bench
from tests.load.kill_rounds import IN_FLIGHT, KILL_NODES, kill_rounds
from tests.load.removed_guards import FAILPOINTS, GUARDS

pytestmark = [pytest.mark.system, pytest.mark.long]
ROUNDS = 20


def test_all_records_agree_after_each_kill(tmp_path: Path) -> None:
    report = kill_rounds(Bench(tmp_path, KILL_NODES), ROUNDS)
    assert not report.problems and report.rounds == ROUNDS
    assert report.min_in_flight >= IN_FLIGHT and report.granted > 5 * ROUNDS
    assert report.resized > 5 * ROUNDS
    assert report.suspended > ROUNDS and report.resumed > ROUNDS
    at_failpoints = sum(
        n for place, n in report.kills.items() if "." in place and "not reached" not in place
    )
    assert at_failpoints >= 0.75 * (ROUNDS // 2), f"too few kills at failpoints: {report.kills}"


@pytest.mark.parametrize("guard", sorted(GUARDS))
def test_kill_rounds_detect_removed_guard(tmp_path: Path, guard: str) -> None:
    report = kill_rounds(
        Bench(tmp_path, KILL_NODES),
        ROUNDS,
        ("-m", "tests.load.removed_guards", guard),
        settle_seconds=15,
        failpoints=FAILPOINTS.get(guard, NAMES),
    )
    assert report.problems, f"no problem found in {report.rounds} rounds without {guard}"
