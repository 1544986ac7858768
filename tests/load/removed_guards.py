"""The appliance without one of its guards, to test that the kill rounds detect the fault.

Usage: python -m tests.load.removed_guards GUARD
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any
from uuid import UUID

import django


def without_idempotency() -> None:
    """Execute a repeated request again instead of returning the stored response."""
    from appliance.accounts import idempotency

    vars(idempotency)["Store"].run_once = lambda store, effect, authorize: effect()


def respond_before_commit() -> None:
    """Complete the caller's future before the transaction commits."""
    from appliance.db import writer

    def complete_early(work: Callable[[], Any], future: Any) -> Any:
        def run() -> Any:
            value = work()
            future.set_result(value)
            return value

        return run

    commit = writer.Writer._commit

    def commit_early(self: writer.Writer, batch: Sequence[Any]) -> None:
        commit(self, [(complete_early(work, future), Future()) for work, future in batch])

    writer.Writer._commit = commit_early  # type: ignore[method-assign]


def without_capacity_accounting() -> None:
    """Do not subtract granted shares from the free capacity of a GPU."""
    from appliance.allocations import lifecycle
    from appliance.db import change_log
    from appliance.db.change_log import Topic

    lifecycle.take_capacity = lambda gpu_id, percent, memory_bytes: change_log.record(
        Topic.GPU_CAPACITY, gpu_id
    )


def without_returned_memory() -> None:
    """Do not give the memory that a shrink has returned back to the capacity of the GPU."""
    from appliance.allocations import resizing

    take = resizing.take_capacity

    def take_only(gpu_id: UUID, percent: int, memory_bytes: int) -> None:
        if percent or memory_bytes > 0:
            take(gpu_id, percent, memory_bytes)

    resizing.take_capacity = take_only


def without_reports_of_held_memory() -> None:
    """Take the memory over a size for free when the node has applied the size."""
    from appliance.allocations import services

    services.held_bytes = lambda partitions, over, *, has_sessions: [0] * len(partitions)


def record_suspension_after_report() -> None:
    """Commit a node's report of a suspension before the state that follows from it."""
    from django.db import transaction

    from appliance.allocations import suspending
    from appliance.allocations.models import Allocation
    from appliance.db.writer import submit_write

    advance = suspending.advance

    def advance_later(allocation: Allocation, reports: Sequence[Any], *, complete: bool) -> None:
        def run() -> None:
            advance(Allocation.objects.get(pk=allocation.pk), reports, complete=complete)

        transaction.on_commit(lambda: submit_write(run, must=True))

    suspending.advance = advance_later


GUARDS = {
    f.__name__: f
    for f in (
        without_idempotency,
        respond_before_commit,
        without_capacity_accounting,
        without_returned_memory,
        without_reports_of_held_memory,
        record_suspension_after_report,
    )
}
FAILPOINTS = {"record_suspension_after_report": ("suspension.recorded", "resumption.recorded")}
"""Failpoints at which a guard is needed; for others, all."""

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
    django.setup()
    GUARDS[sys.argv[1]]()
    from django.core.management import call_command

    call_command("runappliance")
