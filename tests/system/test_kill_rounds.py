"""The appliance dies with requests in flight: nothing that was granted is lost, nothing is granted twice. And the rounds are shown to notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.load.appliance import Bench
from tests.load.kill_rounds import IN_FLIGHT, KILL_NODES, kill_rounds
from tests.load.unguarded import GUARDS

pytestmark = pytest.mark.system


def test_all_books_say_the_same_after_each_of_twenty_kills(tmp_path: Path) -> None:
    report = kill_rounds(Bench(tmp_path, KILL_NODES), 20)
    assert not report.problems and report.rounds == 20
    assert report.least_in_flight >= IN_FLIGHT and report.granted > 100
    assert (
        sum(n for place, n in report.kills.items() if "." in place and "not reached" not in place)
        >= 8
    ), f"few died at a named place: {report.kills}"


@pytest.mark.parametrize("guard", sorted(GUARDS))
def test_a_guard_that_is_gone_is_noticed(tmp_path: Path, guard: str) -> None:
    report = kill_rounds(
        Bench(tmp_path, KILL_NODES), 20, ("-m", "tests.load.unguarded", guard), settle_seconds=15
    )
    assert report.problems, f"{report.rounds} rounds without {guard}, and nobody noticed"
