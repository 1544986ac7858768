"""Options of allocation requests that contradict each other."""

from __future__ import annotations

from typing import cast

import pytest

from remoting.cli.allocation_request import AllocationRequest
from remoting.cli.api import Api
from remoting.cli.errors import EXIT_USAGE, ApiError

NO_API = cast("Api", None)
"""It is asked for reservations only."""


@pytest.mark.parametrize("mode", ["capped", "guaranteed"])
def test_exclusive_with_another_mode_is_refused(mode: str) -> None:
    with pytest.raises(ApiError, match=f"--mode {mode} a part. Omit one.") as refused:
        AllocationRequest(exclusive=True, mode=mode).body(NO_API)
    assert refused.value.exit_code == EXIT_USAGE


def test_exclusive_and_its_mode_are_the_same() -> None:
    assert AllocationRequest(exclusive=True).body(NO_API) == AllocationRequest(
        mode="exclusive"
    ).body(NO_API)


@pytest.mark.parametrize("part", [{"percent": 50}, {"memory": 1 << 30}])
def test_part_of_whole_gpus_is_ignored_with_a_notice(
    capsys: pytest.CaptureFixture[str], part: dict[str, int]
) -> None:
    whole = AllocationRequest(exclusive=True, percent=100).body(NO_API)
    assert capsys.readouterr().err == ""
    assert AllocationRequest(exclusive=True, **part).body(NO_API) == whole  # type: ignore[arg-type]
    assert "percent and memory are ignored" in capsys.readouterr().err
