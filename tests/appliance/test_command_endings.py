"""What commands say about allocations that have ended."""

from __future__ import annotations

import os
import threading
from typing import Any, cast

import pytest
from django.conf import settings

from appliance.allocations.eviction import evict
from appliance.allocations.models import Allocation
from remoting.cli import run_command
from remoting.cli.api import Api, ApiError
from remoting.cli.run_command import LeaseKeeper, ending_of
from remoting.cli.ticket_file import TicketFile
from tests.appliance.commands_in_process import Busbar, InProcessApi
from tests.appliance.suspending_client import Client, report

pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


def test_attach_names_who_released_the_allocation_and_when(
    alice: Client, busbar_of_alice: Busbar
) -> None:
    pk = alice.allocate()
    assert busbar_of_alice("allocation", "release", pk, "--yes").status == 0
    report(alice.node)
    ended_at = Allocation.objects.get(pk=pk).ended_at
    assert ended_at is not None
    done = busbar_of_alice("allocation", "attach", pk, "--", "true")
    time = f"{ended_at:%Y-%m-%d %H:%M:%S} UTC"
    assert done.status == 1 and f"The allocation was released by alice at {time}." in done.err


def test_queued_request_that_ends_has_not_started(alice: Client, busbar_of_alice: Busbar) -> None:
    made = alice.client.post(
        "/api/v1/allocations", {"gpu_count": 16, "allow_pending": True}, format="json"
    ).json()
    pk = Allocation.objects.get(pk=made["id"]).pk
    evict(allocation_id=pk, reason="no session and no heartbeat for 25 s")
    done = busbar_of_alice("allocation", "attach", made["id"], "--", "true")
    assert "ended before it started at 2" in done.err and "no heartbeat for 25 s." in done.err


def test_ticket_of_an_ended_allocation_is_refused_with_its_end(alice: Client) -> None:
    pk = alice.allocate()
    evict(allocation_id=Allocation.objects.get(pk=pk).pk, reason="no session for 25 s")
    keeper = LeaseKeeper(InProcessApi(alice.client), pk, TicketFile())
    with pytest.raises(Exception, match="The allocation ended: no session for 25 s"):
        keeper.write_ticket()
    keeper.renew()
    assert keeper.ended == "The allocation ended: no session for 25 s."


def test_program_that_failed_does_not_wait_for_an_appliance_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answer, answered = threading.Event(), threading.Event(), threading.Event()

    class HangingApi:
        def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
            if path.endswith("/heartbeat"):
                asked.set()
                answer.wait(60)
                answered.set()
            return {"tickets": [], "state": "active", "evict_at": None}

    monkeypatch.setattr(run_command, "wait_until_active", lambda *_: None)
    monkeypatch.setattr(run_command, "supervise", lambda *_: 3)
    monkeypatch.setattr(run_command, "LAST_RENEWAL_SECONDS", 0.1)
    try:
        api = cast("Api", HangingApi())
        assert run_command.run_on_allocation(api, {"id": "x"}, ["false"], None) == 3
        assert asked.wait(60) and not answered.is_set()
    finally:
        answer.set()


def test_nothing_is_renewed_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last renewal waits for the one before, which waits for the appliance."""
    asked, answer, sent = threading.Event(), threading.Event(), list[str]()

    class SlowApi:
        def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
            sent.append(path.rpartition("/")[2])
            if sent[-1] == "heartbeat":
                asked.set()
                answer.wait(60)
            return {"tickets": [], "state": "active", "evict_at": None}

    monkeypatch.setattr(run_command, "wait_until_active", lambda *_: None)
    monkeypatch.setattr(run_command, "supervise", lambda *_: 3 if asked.wait(60) else 0)
    for name in ("LAST_RENEWAL_SECONDS", "HEARTBEAT_SECONDS", "TICKET_RENEWAL_SECONDS"):
        monkeypatch.setattr(run_command, name, 0.0)
    before = set(threading.enumerate())
    try:
        api = cast("Api", SlowApi())
        assert run_command.run_on_allocation(api, {"id": "x"}, ["false"], None) == 3
    finally:
        answer.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert sent == ["tickets", "heartbeat"]


def test_end_without_a_reason_has_the_state() -> None:
    row = {"end_reason": "", "state": "released", "ended_at": None, "active_at": "2026"}
    assert ending_of(row) == "The allocation ended: it is released."


def test_end_of_the_jupyter_server_while_it_is_requested_ends_the_allocation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent, sent = [7], list[str]()

    class SlowApi:
        def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
            parent[0] = 1
            sent.append(f"{method} {path}")
            return {"id": "x", "state": "queued", "waiting_reason": "", "lifetime_seconds": None}

    monkeypatch.setenv("JPY_PARENT_PID", "7")
    monkeypatch.setattr(os, "getppid", lambda: parent[0])
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid())
    with pytest.raises(ApiError, match="The Jupyter server has ended"):
        run_command.run(cast("Api", SlowApi()), ["true"], request={}, timeout_seconds=60)
    assert sent == ["POST allocations", "DELETE allocations/x"]
