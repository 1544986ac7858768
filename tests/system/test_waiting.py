"""`?wait=`: an answer that comes when it is over, not when it was asked."""

from __future__ import annotations

import time

import pytest

from remoting.cli.api import ApiError
from tests.system.conftest import Pool

pytestmark = pytest.mark.system


def test_an_allocation_is_answered_when_it_is_active_and_again_when_it_is_released(
    pool: Pool,
) -> None:
    made = pool.api.request("POST", "allocations", {"percent": 5}, wait="30")
    assert made["state"] == "active" and made["partitions"]
    ended = pool.api.request("DELETE", f"allocations/{made['id']}", None, wait="30")
    assert ended["state"] == "released" and not ended["partitions"]


def test_what_cannot_be_over_is_answered_as_it_is_when_time_is_up(pool: Pool) -> None:
    begun = time.monotonic()
    waiting = pool.api.request("POST", "allocations", {"gpu_count": 16}, wait="1")
    assert waiting["state"] == "waiting" and 1 <= time.monotonic() - begun < 10
    pool.api.request("DELETE", f"allocations/{waiting['id']}")


def test_a_task_is_answered_when_it_has_ended(pool: Pool) -> None:
    made = pool.api.request("POST", "allocations", {"percent": 5})
    task = next(
        t
        for t in pool.api.items("tasks", kind="allocation.prepare")
        if t["path"].endswith(made["id"])
    )
    assert pool.api.request("GET", f"tasks/{task['id']}", None, wait="30")["state"] == "succeeded"
    pool.api.request("DELETE", f"allocations/{made['id']}", None, wait="30")


@pytest.mark.parametrize("wait", ["-1", "61", "soon"])
def test_a_wait_that_is_none_is_refused(pool: Pool, wait: str) -> None:
    with pytest.raises(ApiError, match="wait must be a number"):
        pool.api.request(
            "GET",
            f"allocations/{pool.api.request('POST', 'allocations', {'percent': 1})['id']}",
            None,
            wait=wait,
        )
