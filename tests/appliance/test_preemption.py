"""Notices of eviction that a request or a resize causes, and their withdrawal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from appliance.accounts.models import Project, User
from appliance.activity.models import Event
from appliance.allocations import eviction, lifecycle, maintenance, preemption, scheduler
from appliance.allocations.index import index
from appliance.allocations.models import Allocation, SuspensionState
from appliance.inventory.models import Node
from appliance.pools.models import Quota
from tests.appliance.commands_in_process import BusbarOf
from tests.appliance.conftest import GIB, Cast, body
from tests.appliance.test_resizing import URL, Client, report

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


@pytest.fixture
def alice(cast: Cast, client_of: Clients, add_node: Callable[..., Node]) -> Client:
    """The user alice, whose project has a quota of the GPU."""
    project = Project.objects.get(name="default")
    Quota.objects.create(subject_kind="project", subject_id=project.pk, quota_percent=100)
    return Client(client_of(cast.alice), add_node(memory_bytes=10 * GIB))


@pytest.fixture
def charlie(cast: Cast, client_of: Clients, alice: Client) -> Client:
    """A user of another project, which borrows."""
    return Client(client_of(cast.charlie), alice.node)


def has_notice(client: Client, pk: str) -> bool:
    allocation = client.read(pk)
    assert (allocation["evict_at"] is None) == (allocation["end_reason"] == "")
    return allocation["evict_at"] is not None


def end_those_with_notice(node: Node) -> None:
    past = timezone.now() - timedelta(seconds=1)
    Allocation.objects.exclude(evict_at=None).update(evict_at=past)
    eviction.evict_expired()
    report(node)


@pytest.mark.parametrize("percent", [30, 20, 40], ids=["withdrawn", "less", "fits"])
def test_neighbour_goes_on_when_the_resize_that_evicts_it_no_longer_needs_it(
    alice: Client, charlie: Client, percent: int
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=60, project="elsewhere")
    assert alice.resize(pk, percent=60)["waiting_rule"] == "reclaim"
    assert has_notice(charlie, borrowed)
    alice.resize(pk, percent=percent)
    assert not has_notice(charlie, borrowed)
    withdrawn = Event.objects.get(kind="allocation.eviction_withdrawn", object_id=borrowed)
    assert withdrawn.actor == "system", "a user of another project was named"
    end_those_with_notice(alice.node)
    assert charlie.read(borrowed)["state"] == "active" and alice.granted(pk)[0] == percent
    index.verify_sample()
    assert index.mismatches == 0


def test_neighbour_keeps_its_notice_if_the_new_size_needs_its_end_as_well(
    alice: Client, charlie: Client
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=60, project="elsewhere")
    alice.resize(pk, percent=60)
    before = charlie.read(borrowed)["evict_at"]
    alice.resize(pk, percent=70)
    assert charlie.read(borrowed)["evict_at"] == before
    assert not Event.objects.filter(kind="allocation.eviction_withdrawn").exists()


def test_resize_is_expected_when_the_notice_of_its_victim_ends(
    alice: Client, charlie: Client
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=60, project="elsewhere")
    alice.resize(pk, percent=60)
    explained = body(alice.client.get(f"{URL}/{pk}/explanation"))
    assert explained["expected_start_at"] == charlie.read(borrowed)["evict_at"]


def test_command_names_what_will_end_and_how_it_goes_on(
    cast: Cast, client_of: Clients, alice: Client, charlie: Client, busbar_of: BusbarOf
) -> None:
    pk = alice.allocate(percent=30, name="train")
    charlie.allocate(percent=60, project="elsewhere", name="other")
    done = busbar_of(alice.client)("resize", "train", "-p", "60", "--wait", "0")
    assert done.status == 0 and "other" not in done.out, "a name of another project"
    assert "goes on if you resize to the present size and mode" in done.out
    alice.resize(pk, percent=30)
    done = busbar_of(client_of(cast.olga))("resize", pk, "-p", "60", "--wait", "0")
    assert "Will end with their programs: other (project elsewhere, owner charlie) at " in done.out


def test_smaller_resize_ends_fewer_neighbours(alice: Client, charlie: Client) -> None:
    pk = alice.allocate(percent=20)
    others = [charlie.allocate(percent=40, project="elsewhere") for _ in range(2)]
    alice.resize(pk, percent=100)
    assert [has_notice(charlie, other) for other in others] == [True, True]
    alice.resize(pk, percent=50)
    assert sorted(has_notice(charlie, other) for other in others) == [False, True]


def test_capacity_that_becomes_free_spares_those_that_it_makes_needless(
    alice: Client, charlie: Client
) -> None:
    pk = alice.allocate(percent=20)
    released, *others = (charlie.allocate(percent=p, project="elsewhere") for p in (30, 25, 25))
    alice.resize(pk, percent=60)
    assert [has_notice(charlie, other) for other in others] == [True, True]
    charlie.client.delete(f"{URL}/{released}")
    report(alice.node)
    scheduler.run_tick()
    assert sorted(has_notice(charlie, other) for other in others) == [False, True]


@pytest.mark.parametrize("waits", ["request", "resize"])
def test_neighbour_goes_on_when_what_evicts_it_loses_its_claim(
    alice: Client, charlie: Client, waits: str
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=60, project="elsewhere")
    if waits == "resize":
        alice.resize(pk, percent=60)
    else:
        alice.client.post(URL, {"percent": 50}, format="json")
    assert has_notice(charlie, borrowed)
    Quota.objects.update(quota_percent=30)
    index.reset()
    scheduler.run_tick()
    assert not has_notice(charlie, borrowed)


def test_notice_stays_for_another_request_that_is_entitled_to_the_gpu(
    alice: Client, charlie: Client
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=60, project="elsewhere")
    alice.resize(pk, percent=60)
    waiting = body(alice.client.post(URL, {"percent": 50}, format="json"))
    assert waiting["waiting_rule"] == "reclaim"
    before = charlie.read(borrowed)["evict_at"]
    alice.resize(pk, percent=30)
    after = charlie.read(borrowed)
    assert waiting["id"] in after["end_reason"]
    assert after["evict_at"] == before, "the other request waits again from the start"


@pytest.mark.parametrize("waits", ["request", "resize"])
def test_neighbour_goes_on_when_what_evicts_it_is_released(
    alice: Client, charlie: Client, waits: str
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=60, project="elsewhere")
    if waits == "resize":
        alice.resize(pk, percent=60)
    else:
        pk = body(alice.client.post(URL, {"percent": 50}, format="json"))["id"]
    assert has_notice(charlie, borrowed)
    alice.client.delete(f"{URL}/{pk}")
    end_those_with_notice(alice.node)
    scheduler.run_tick()
    assert not has_notice(charlie, borrowed) and charlie.read(borrowed)["state"] == "active"


def test_neighbour_goes_on_when_other_capacity_serves_the_resize(
    alice: Client, charlie: Client
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=30, project="elsewhere")
    released = charlie.allocate(percent=40, project="elsewhere")
    alice.resize(pk, percent=60)
    (noticed,) = [v for v in (borrowed, released) if has_notice(charlie, v)]
    (other,) = {borrowed, released} - {noticed}
    charlie.client.delete(f"{URL}/{other}")
    report(alice.node)
    scheduler.run_tick()
    assert alice.granted(pk)[0] == 60
    end_those_with_notice(alice.node)
    scheduler.run_tick()
    assert not has_notice(charlie, noticed) and charlie.read(noticed)["state"] == "active"
    index.verify_sample()
    assert index.mismatches == 0


def test_neighbour_goes_on_when_other_capacity_serves_the_request(
    alice: Client, charlie: Client
) -> None:
    borrowed = [charlie.allocate(percent=50, project="elsewhere") for _ in range(2)]
    waiting = body(alice.client.post(URL, {"percent": 50}, format="json"))
    (noticed,) = [v for v in borrowed if has_notice(charlie, v)]
    (other,) = set(borrowed) - {noticed}
    charlie.client.delete(f"{URL}/{other}")
    report(alice.node)
    scheduler.run_tick()
    assert alice.read(waiting["id"])["state"] == "preparing"
    end_those_with_notice(alice.node)
    scheduler.run_tick()
    assert not has_notice(charlie, noticed) and charlie.read(noticed)["state"] == "active"


def test_neighbour_goes_on_while_the_allocation_that_evicts_it_is_suspended(
    alice: Client, charlie: Client
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=60, project="elsewhere")
    alice.resize(pk, percent=60)
    Allocation.objects.filter(pk=pk).update(suspension=SuspensionState.SUSPENDING)
    end_those_with_notice(alice.node)
    scheduler.run_tick()
    assert not has_notice(charlie, borrowed) and charlie.read(borrowed)["state"] == "active"


@pytest.mark.parametrize("withdrawn", ["before the drain ends", "never"])
def test_neighbour_goes_on_after_a_cancelled_drain(
    cast: Cast, alice: Client, charlie: Client, withdrawn: str
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=60, project="elsewhere")
    alice.resize(pk, percent=60)
    node = alice.node
    maintenance.enter_maintenance(node_id=node.pk, grace_seconds=3600, initiator=cast.olga)
    told = charlie.read(borrowed)
    assert told["end_reason"] == f"maintenance of node {node.name}"
    if withdrawn != "never":
        alice.client.delete(f"{URL}/{pk}")
        scheduler.run_tick()
        assert charlie.read(borrowed)["evict_at"] == told["evict_at"], "the drain goes on"
    maintenance.exit_maintenance(node_id=node.pk, actor="olga")
    assert not has_notice(charlie, borrowed)


def test_notice_of_the_resized_allocation_ends_those_that_it_gave(
    alice: Client, charlie: Client
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=60, project="elsewhere")
    alice.resize(pk, percent=60)
    eviction.evict(allocation_id=UUID(pk), reason="idle", grace_seconds=60)
    scheduler.run_tick()
    assert not has_notice(charlie, borrowed)


def test_notice_of_a_scheduler_that_read_the_queue_earlier_is_withdrawn(
    alice: Client, charlie: Client
) -> None:
    pk, borrowed = alice.allocate(percent=30), charlie.allocate(percent=60, project="elsewhere")
    reason = preemption.preemption_reason(Allocation.objects.get(pk=pk))
    eviction.evict(allocation_id=UUID(borrowed), reason=reason, grace_seconds=60)
    scheduler.run_tick()
    assert not has_notice(charlie, borrowed)


def test_withdrawal_keeps_a_notice_that_was_given_for_another_reason_meanwhile(
    alice: Client, charlie: Client
) -> None:
    alice.allocate(percent=30)
    borrowed = charlie.allocate(percent=60, project="elsewhere")
    alice.client.post(URL, {"percent": 50}, format="json")
    stale = Allocation.objects.get(pk=borrowed)
    eviction.evict(allocation_id=UUID(borrowed), reason="maintenance", grace_seconds=60)
    lifecycle.withdraw_eviction(stale, actor="system")
    assert charlie.read(borrowed)["end_reason"] == "maintenance"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="plans of PostgreSQL depend on rows")
def test_notices_are_read_without_a_scan_of_what_runs() -> None:
    assert "USING INDEX allocation_noticed" in preemption.NOTICED.build().explain()
