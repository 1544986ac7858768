"""Rows that the scheduler cannot read keep what others were promised."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from appliance.accounts.models import Project, User
from appliance.allocations import scheduler
from appliance.allocations.index import index
from appliance.allocations.models import Allocation
from appliance.inventory.models import Gpu, Node
from appliance.pools.models import Pool, Reservation
from appliance.runtime import each
from tests.appliance.conftest import Cast

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
URL = "/api/v1/allocations"


@pytest.fixture(autouse=True)
def no_known_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(each, "_failures", {})


def queue_request(client: Any, name: str, **values: Any) -> None:
    content = {"percent": 10, "name": name, "allow_pending": True} | values
    assert client.post(URL, content, format="json").status_code == 202


def reserve(gpu_count: int) -> Reservation:
    now = timezone.now()
    return Reservation.objects.create(
        name="reserved",
        pool=Pool.objects.get(name="default"),
        project=Project.objects.get(name="default"),
        gpu_count=gpu_count,
        starts_at=now,
        ends_at=now + timedelta(hours=1),
    )


def test_gpu_that_cannot_be_read_does_not_void_a_reservation(
    cast: Cast, client_of: Clients, add_node: AddNode, caplog: pytest.LogCaptureFixture
) -> None:
    queue_request(client_of(cast.alice), "other")
    for name in ("bad", "good"):
        add_node(name)
    reserve(2)
    Node.objects.filter(name="bad").update(isolation="nonsense")
    scheduler.run_tick()
    other = Allocation.objects.get(name="other")
    assert (other.state, other.waiting_rule) == ("queued", "reservation")
    assert "Not usable: GPU 0 of bad cannot be read; see the log" in other.waiting_reason
    assert caplog.text.count("reading of GPU failed") == 1


def test_request_of_a_reservation_is_told_of_the_gpu_that_cannot_be_read(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    for name in ("bad", "good"):
        add_node(name)
    reservation = reserve(2)
    Node.objects.filter(name="bad").update(isolation="nonsense")
    values = {"percent": 100, "gpu_count": 2, "reservation_id": str(reservation.pk)}
    queue_request(client_of(cast.alice), "reserved", allow_pending=False, **values)
    waiting = Allocation.objects.get(name="reserved")
    assert (waiting.state, waiting.waiting_rule) == ("queued", "capacity")
    assert "1 usable GPU (GPU 0 of bad cannot be read" in waiting.waiting_reason


def test_gpu_serves_again_when_it_can_be_read(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node("bad")
    Gpu.objects.update(labels=["nonsense"])
    queue_request(client_of(cast.alice), "waits", allow_pending=False)
    assert Allocation.objects.get(name="waits").state == "queued"
    Gpu.objects.update(labels={})
    scheduler.verify_index()
    scheduler.run_tick()
    assert Allocation.objects.get(name="waits").state == "preparing"


def damage(pool: str) -> None:
    Pool.objects.filter(name=pool).update(policies=["nonsense"])
    index.reset()


def test_request_for_a_pool_that_cannot_be_read_is_not_told_that_it_was_deleted(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node()
    damage("default")
    queue_request(client_of(cast.alice), "waits", allow_pending=False)
    waiting = Allocation.objects.get(name="waits")
    assert (waiting.state, waiting.waiting_rule) == ("queued", "error")
    assert "failed to read pool default" in waiting.waiting_reason


def test_fallback_that_cannot_be_read_makes_no_request_impossible(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node()
    spare = Pool.objects.create(name="spare")
    Pool.objects.filter(name="default").update(fallbacks=[str(spare.pk)])
    damage("spare")
    queue_request(client_of(cast.alice), "waits", gpu_count=2, allow_pending=False)
    waiting = Allocation.objects.get(name="waits")
    assert (waiting.state, waiting.waiting_rule) == ("queued", "capacity")


def test_nothing_is_evicted_for_a_start_in_a_pool_that_cannot_be_read(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    spare = Pool.objects.create(name="spare")
    Gpu.objects.filter(node=add_node("a")).update(pool=spare)
    low = {"percent": 100, "preemptible": True, "priority": 10}
    queue_request(client_of(cast.alice), "victim", pool="spare", **low)
    Allocation.objects.update(active_at=timezone.now(), created_at=timezone.now())
    Pool.objects.filter(name="default").update(fallbacks=[str(spare.pk)])
    damage("spare")
    queue_request(client_of(cast.alice), "waits", percent=100)
    found = dict(Allocation.objects.values_list("name", "state"))
    assert found == {"victim": "preparing", "waits": "queued"}


def test_start_of_others_is_forecast_while_a_pool_cannot_be_read(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    spare = Pool.objects.create(name="spare")
    Gpu.objects.filter(node=add_node("a")).update(pool=spare)
    alice = client_of(cast.alice)
    queue_request(alice, "ends", pool="spare", lifetime_seconds=3600)
    damage("spare")
    queue_request(alice, "waits")
    waiting = Allocation.objects.get(name="waits")
    assert alice.get(f"{URL}/{waiting.pk}/explanation").status_code == 200
