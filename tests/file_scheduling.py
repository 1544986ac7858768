"""Distribution of tests to the workers of pytest-xdist, also when workers die."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from xdist.scheduler import LoadFileScheduling

SHARED_SETUPS = ("tests/system/department/", "tests/packages/", "tests/appliance/running/")
"""Folders whose files share a fixture that takes seconds: one worker runs them."""


class FileScheduling(LoadFileScheduling):
    """Gives the tests of a file, or of a folder of SHARED_SETUPS, to one worker.

    A worker that dies fails its test, and another one runs the rest of its tests.
    """

    def _split_scope(self, nodeid: str) -> str:
        shared = [folder for folder in SHARED_SETUPS if nodeid.startswith(folder)]
        return shared[0] if shared else str(super()._split_scope(nodeid))

    def remove_node(self, node: Any) -> str | None:
        """Return the test during which the worker died; queue those that it has not run.

        pytest-xdist would queue that test as well, which kills the next worker, and files without
        tests that are left, for which a worker waits for ever.
        """
        files = self.assigned_work.pop(node)
        died, *_ = [*(test for tests in files.values() for test in left(tests)), None]
        for file, tests in files.items():
            if rest := {test: False for test in left(tests) if test != died}:
                self.workqueue[file] = rest
        for other in self.assigned_work if died else ():
            self._reschedule(other)
        return died

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Register the tests that a worker found. One that found others gets none."""
        super().add_node_collection(node, collection)
        if node not in self.registered_collections:
            node.shutdown()

    def _reschedule(self, node: Any) -> None:
        """Give a worker two tests at least: it begins one when it knows the next."""
        if node not in self.registered_collections:  # it replaces another and still searches tests
            return
        super()._reschedule(node)
        while (
            self.workqueue
            and not node.shutting_down
            and self._pending_of(self.assigned_work[node]) < 2
        ):
            super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        with suppress(OSError):  # it is dead; remove_node queues the tests again
            super()._assign_work_unit(node)


def left(tests: dict[str, bool]) -> list[str]:
    return [test for test, is_done in tests.items() if not is_done]
