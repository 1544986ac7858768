"""The appliance without one of its guards, to show that the kill rounds notice: `python -m tests.load.unguarded GUARD`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import django


def keeps_no_answers() -> None:
    """A repeated request has its effect again."""
    from appliance.activity import idempotency

    def forgetful(
        *, user_id: object, key: str, digest: str, effect: Callable[[], tuple[int, dict[str, Any]]]
    ) -> tuple[int, dict[str, Any]]:
        return effect()

    vars(idempotency)["remember_answer"] = forgetful


def answers_before_the_commit() -> None:
    """Who asked is told before it is certain."""
    from appliance import writer

    def hasty(work: Callable[[], Any], future: Any) -> Any:
        def answered() -> Any:
            value = work()
            future.set_result(value)
            return value

        return answered

    commit = writer.Writer._commit

    def committed(self: writer.Writer, batch: list[Any]) -> None:
        commit(self, [(hasty(work, future), Future()) for work, future in batch])

    writer.Writer._commit = committed  # type: ignore[method-assign]


def counts_no_room() -> None:
    """What was given is not taken from the GPU, and the scheduler forgets it."""
    from appliance.allocations import lifecycle
    from appliance.allocations.index import touch_gpus

    lifecycle.take = lambda gpu_id, percent, memory_bytes: touch_gpus([gpu_id])


GUARDS = {f.__name__: f for f in (keeps_no_answers, answers_before_the_commit, counts_no_room)}

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
    django.setup()
    GUARDS[sys.argv[1]]()
    from django.core.management import call_command

    call_command("runappliance")
