"""The query parameter `wait`: the response is delayed until the operation has ended."""

from __future__ import annotations

import pytest

from remoting.cli.api import ApiError
from tests.system.conftest import Pool

pytestmark = pytest.mark.system


def test_wait_returns_active_and_released_allocation(
    pool: Pool,
) -> None:
    allocation = pool.api.request("POST", "allocations", {"percent": 5}, wait="60")
    assert allocation["state"] == "active" and allocation["partitions"]
    ended = pool.api.request("DELETE", f"allocations/{allocation['id']}", None, wait="60")
    assert ended["state"] == "released" and not ended["partitions"]


def test_wait_returns_current_state_after_timeout(pool: Pool) -> None:
    many = {"gpu_count": 16, "allow_pending": True}
    waiting = pool.api.request("POST", "allocations", many, wait="1")
    assert waiting["state"] == "queued"
    pool.api.request("DELETE", f"allocations/{waiting['id']}")


def test_wait_returns_ended_task(pool: Pool) -> None:
    allocation = pool.api.request("POST", "allocations", {"percent": 5})
    task = next(
        t
        for t in pool.api.items("tasks", kind="allocation.prepare")
        if t["path"].endswith(allocation["id"])
    )
    assert pool.api.request("GET", f"tasks/{task['id']}", None, wait="60")["state"] == "succeeded"
    pool.api.request("DELETE", f"allocations/{allocation['id']}", None, wait="60")


@pytest.mark.parametrize("wait", ["-1", "61", "soon"])
def test_wait_rejects_values_outside_0_to_60(pool: Pool, wait: str) -> None:
    with pytest.raises(ApiError, match="wait must be a number"):
        pool.api.request(
            "GET",
            f"allocations/{pool.api.request('POST', 'allocations', {'percent': 1})['id']}",
            None,
            wait=wait,
        )
