"""Steps of the scheduler's tick in the controller process."""

from __future__ import annotations

import asyncio

import pytest

from appliance.allocations import eviction
from appliance.controller import process
from appliance.fleet import rotation


@pytest.mark.django_db(transaction=True)
def test_step_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure that repeats is logged once."""

    def evict_expired() -> None:
        raise ValueError("damaged")

    async def run_three_ticks() -> None:
        reached = asyncio.Event()
        reach = asyncio.get_running_loop().call_soon_threadsafe
        ticks_left = iter(range(2, -1, -1))

        def follow_rotations() -> None:
            """The last step. No step may run behind the end of the test."""
            if not next(ticks_left):
                monkeypatch.setattr(process, "TICK_SECONDS", 3600.0)
                reach(reached.set)

        monkeypatch.setattr(rotation, "follow_rotations", follow_rotations)
        ticks = asyncio.create_task(process.run_scheduler())
        await asyncio.wait_for(reached.wait(), 60)
        ticks.cancel()

    monkeypatch.setattr(eviction, "evict_expired", evict_expired)
    monkeypatch.setattr(process, "TICK_SECONDS", 0.0)
    asyncio.run(run_three_ticks())
    assert caplog.text.count("evict_expired failed") == 1
