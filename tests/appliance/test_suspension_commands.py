"""`busbar allocation suspend` and `resume`: what they print, and their exit status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from remoting.cli import suspension_commands
from tests.appliance.commands_in_process import Busbar
from tests.appliance.suspending_client import MIB, Client, report


@pytest.fixture
def on_wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Let the node report when the command looks at the state for the first time."""

    def set_report(report_once: Callable[[], None]) -> None:
        state_of, reports = suspension_commands.state_of, [report_once]

        def reporting(allocation: dict[str, Any]) -> str:
            if reports:
                reports.pop()()
            return state_of(allocation)

        monkeypatch.setattr(suspension_commands, "state_of", reporting)

    return set_report


def test_commands_return_at_once_without_a_wait(alice: Client, busbar_of_alice: Busbar) -> None:
    pk = alice.allocate()
    assert busbar_of_alice("allocation", "suspend", pk).out == "suspending\n"
    report(alice.node, pk, "suspended", 300 * MIB)
    shown = busbar_of_alice("allocation", "show", pk).out
    assert "suspended, 300 MiB in host memory" in shown and "released_bytes" not in shown
    begun = busbar_of_alice("allocation", "resume", pk)
    assert (begun.status, begun.out) == (0, "resuming\n")
    again = busbar_of_alice("allocation", "resume", pk)
    assert again.status == 4 and "resuming already" in again.err


def test_wait_ends_with_the_suspension(
    alice: Client, busbar_of_alice: Busbar, on_wait: Any
) -> None:
    pk = alice.allocate()
    on_wait(lambda: report(alice.node, pk, "suspended", 300 * MIB))
    done = busbar_of_alice("allocation", "suspend", pk, "--wait", "30s")
    assert (done.status, done.out) == (0, "suspended, 300 MiB in host memory\n"), done.err
    on_wait(lambda: report(alice.node, pk, "running"))
    done = busbar_of_alice("allocation", "resume", pk, "--wait", "30s")
    assert (done.status, done.out) == (0, "active\n"), done.err


def test_failure_is_an_error_with_the_reason(
    alice: Client, busbar_of_alice: Busbar, on_wait: Any
) -> None:
    def fail() -> None:
        report(alice.node, pk, "failed", 0, "train: a capture is under way")
        report(alice.node, pk, "running")

    pk = alice.allocate()
    on_wait(fail)
    done = busbar_of_alice("allocation", "suspend", pk, "--wait", "30s")
    assert done.status == 1 and "failed: train: a capture is under way" in done.err


def test_end_of_the_wait_is_an_error_of_its_own(alice: Client, busbar_of_alice: Busbar) -> None:
    done = busbar_of_alice("allocation", "suspend", alice.allocate(), "--wait", "0.1s")
    assert done.status == 6 and "time to wait is over" in done.err
