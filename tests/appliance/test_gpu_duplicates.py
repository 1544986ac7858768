"""GPUs that two nodes report under one UUID: held on the second node, so none is granted twice."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from appliance.accounts.models import RoleBinding
from appliance.activity.models import Event
from appliance.alarms.models import AlarmDefinition, ObjectKind
from appliance.alarms.state_findings import find_states
from appliance.allocations import lifecycle, scheduler, snapshot_loader
from appliance.db import change_log
from appliance.fleet.enrolment import node_remove
from appliance.inventory import duplicates, reports
from appliance.inventory.duplicates import release_duplicates
from appliance.inventory.gpu_admission import forget_held
from appliance.inventory.models import Gpu, Node, Site
from appliance.inventory.reports import ReportedGpu, create_node, record_node_report
from appliance.pools.models import Pool
from appliance.pools.services import ensure_default_pool
from appliance.telemetry import reachability
from tests.appliance.conftest import GIB, Cast, body
from tests.appliance.test_gpu_admission import report
from tests.appliance.test_inventory import report_of

Clients = Callable[..., Any]
AddNode = Callable[..., Node]
ALLOCATIONS = "/api/v1/allocations"
WHOLE = {"gpu_count": 1, "compute_mode": "exclusive"}
WAIT_SECONDS = 60


def twin_of(node: Node, name: str = "twin") -> Node:
    """Enrol a node that reports the GPUs of another one."""
    twin = create_node(name=name)
    record_node_report(node_id=twin.pk, report=report_of(node, boot_id=name))
    reachability.record_heartbeat(twin.pk)
    return twin


def duplicates_of(node: Node) -> list[uuid.UUID | None]:
    return list(
        Gpu.objects.filter(node=node).order_by("index").values_list("duplicate_of", flat=True)
    )


def test_gpu_of_two_nodes_is_granted_once(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    first = add_node("first")
    twin, alice, olga = twin_of(first), client_of(cast.alice), client_of(cast.olga)
    shown = {g["node"]: g for g in body(olga.get("/api/v1/gpus"))["items"]}
    assert shown["first"]["duplicate_of"] is None and shown["first"]["duplicate_of_node"] is None
    assert shown["twin"]["duplicate_of"] == shown["first"]["id"]
    one = body(olga.get(f"/api/v1/gpus/{shown['twin']['id']}"))
    assert one["duplicate_of_node"] == "first" and one["pool"] == "default"
    total = body(olga.get("/api/v1/capacity"))["total"]["gpus"]
    assert (total["capacity"], total["allocatable"]) == (1, 1)
    assert len(Pool.objects.get().registered_gpus) == 1
    states = [body(alice.post(ALLOCATIONS, WHOLE, format="json"))["state"] for _ in range(2)]
    assert states == ["preparing", "queued"]
    assert Gpu.objects.get(node=twin).taken_percent == 0
    event = Event.objects.get(kind="gpu.duplicate")
    assert event.object_id == twin.pk
    assert "twin/0 is first/0" in event.message and "busbar node remove first" in event.message


def test_request_that_needs_the_duplicate_is_refused(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    twin_of(add_node("first", gpus=2))
    refused = client_of(cast.alice).post(ALLOCATIONS, {"gpu_count": 3}, format="json")
    assert refused.status_code == 409, refused.json()


def test_removal_of_the_first_node_releases_the_gpus_of_the_second(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    first = add_node("first", gpus=2)
    twin = twin_of(first, "again")
    ids = list(Gpu.objects.filter(node=first).order_by("index").values_list("pk", flat=True))
    assert duplicates_of(twin) == ids
    release_duplicates()
    assert duplicates_of(twin) == ids, "the first node only has to be known, not connected"
    node_remove(node_id=first.pk, actor="admin")
    release_duplicates()
    assert duplicates_of(twin) == [None, None]
    assert Event.objects.filter(kind="gpu.duplicate_ended").count() == 2
    scheduler.run_tick()
    granted = body(client_of(cast.alice).post(ALLOCATIONS, WHOLE, format="json"))
    assert granted["state"] == "preparing"


def test_late_report_of_a_removed_node_takes_no_gpu_back(cast: Cast, add_node: AddNode) -> None:
    first = add_node("first")
    twin, late = twin_of(first), report_of(first, agent_version="late")
    node_remove(node_id=first.pk, actor="admin")
    record_node_report(node_id=first.pk, report=late)
    assert not Gpu.objects.get(node=first).present
    release_duplicates()
    assert duplicates_of(twin) == [None]


def test_gpu_that_moved_is_released_when_its_old_node_no_longer_reports_it(
    cast: Cast, add_node: AddNode
) -> None:
    old, new = add_node("old"), add_node("new")
    (moved,) = report_of(old).gpus
    report(new, *report_of(new).gpus, replace(moved, index=1))
    held = Gpu.objects.get(node=new, uuid=moved.uuid)
    assert held.held and held.duplicate_of is not None
    report(old)
    release_duplicates()
    held.refresh_from_db()
    assert held.held and held.duplicate_of is None, "it waits for admission, as each new GPU"
    report(old, moved)
    held.refresh_from_db()
    assert duplicates_of(old) == [None], "the GPU that no operator admitted is the duplicate"
    assert held.duplicate_of == Gpu.objects.get(node=old)
    report(old)
    assert duplicates_of(old) == [None], "a missing GPU is not held"


def test_missing_gpu_in_use_keeps_its_claim_until_it_is_free(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    first = add_node("first")
    (gpu,) = report_of(first).gpus
    twin = twin_of(first)
    body(client_of(cast.alice).post(ALLOCATIONS, WHOLE, format="json"))
    report(first)
    release_duplicates()
    assert duplicates_of(twin) == [Gpu.objects.get(node=first).pk]
    third = create_node(name="third")
    report(third, gpu)
    assert duplicates_of(third) == duplicates_of(twin)
    Gpu.objects.filter(node=first).update(taken_percent=0, taken_memory_bytes=0)
    release_duplicates()
    assert duplicates_of(twin) == [None]
    assert duplicates_of(third) == [Gpu.objects.get(node=twin).pk], "one of two gets the claim"


def test_held_gpu_that_disappears_passes_its_claim_on(cast: Cast, add_node: AddNode) -> None:
    nodes = [add_node(name) for name in ("a", "b", "c")]
    shared = ReportedGpu(uuid.uuid4(), 1, "Test GPU", 8 * GIB, "12.0")
    own = [report_of(n).gpus for n in nodes]
    for node, gpus in zip(nodes, own, strict=True):
        report(node, *gpus, shared)
    assert Gpu.objects.filter(uuid=shared.uuid, held=True).count() == 3
    report(nodes[0], *own[0])
    second, third = Gpu.objects.filter(uuid=shared.uuid).order_by("pk")
    assert second.duplicate_of is None and third.duplicate_of == second


def test_claim_that_a_third_node_took_meanwhile_stays_there(cast: Cast, add_node: AddNode) -> None:
    first = add_node("first")
    (gpu,) = report_of(first).gpus
    twin, third = twin_of(first), create_node(name="third")
    node_remove(node_id=first.pk, actor="admin")
    report(third, gpu)  # before the next look of the scheduler
    release_duplicates()
    assert duplicates_of(third) == [None]
    assert duplicates_of(twin) == [Gpu.objects.get(node=third).pk]
    assert not Event.objects.filter(kind="gpu.duplicate_ended").exists()
    report(third)
    release_duplicates()
    assert duplicates_of(twin) == [None]


def test_gpu_that_returns_too_late_is_a_duplicate_with_those_that_waited_for_it(
    cast: Cast, add_node: AddNode
) -> None:
    first = add_node("first")
    (gpu,) = report_of(first).gpus
    twin, third = twin_of(first), create_node(name="third")
    report(first)
    report(third, gpu)
    report(first, gpu)
    claim = Gpu.objects.get(node=third).pk
    assert duplicates_of(first) == duplicates_of(twin) == [claim]
    report(first)
    release_duplicates()
    assert duplicates_of(twin) == [claim]


def test_held_gpu_that_disappears_leaves_a_claim_that_another_took(
    cast: Cast, add_node: AddNode
) -> None:
    nodes = [add_node(name) for name in ("a", "b")]
    shared = ReportedGpu(uuid.uuid4(), 1, "Test GPU", 8 * GIB, "12.0")
    own = [report_of(n).gpus for n in nodes]
    for node, gpus in zip(nodes, own, strict=True):
        report(node, *gpus, shared)
    held, waiting = Gpu.objects.filter(uuid=shared.uuid).order_by("pk")
    Gpu.objects.filter(pk=held.pk).update(present=False)
    report(third := create_node(name="third"), shared)
    forget_held(nodes[0], [gpu.uuid for gpu in own[0]])
    waiting.refresh_from_db()
    assert waiting.duplicate_of == Gpu.objects.get(node=third)


def test_claim_that_cannot_be_passed_on_costs_neither_others_nor_the_tick(
    cast: Cast, add_node: AddNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = add_node("first", gpus=2)
    twin = twin_of(first)
    broken = min(Gpu.objects.filter(node=first).values_list("pk", flat=True))
    node_remove(node_id=first.pk, actor="admin")
    pass_on_claim = duplicates.pass_on_claim

    def fail_for_one(gpu_id: uuid.UUID) -> None:
        pass_on_claim(gpu_id)
        if gpu_id == broken:
            raise IntegrityError("another controller was first")

    monkeypatch.setattr(duplicates, "pass_on_claim", fail_for_one)
    release_duplicates()
    assert set(duplicates_of(twin)) == {broken, None} and str(broken) in caplog.text
    monkeypatch.undo()
    release_duplicates()
    assert duplicates_of(twin) == [None, None]


def test_gpu_that_no_operator_admitted_takes_none_out_of_service(
    cast: Cast, add_node: AddNode
) -> None:
    victim, hostile, third = (add_node(name) for name in ("victim", "hostile", "third"))
    (gpu,), own, others = (report_of(n).gpus for n in (victim, hostile, third))
    report(hostile, *own, replace(gpu, index=1))
    report(third, *others, replace(gpu, index=2))
    report(victim)  # lost for a moment
    release_duplicates()
    held, waiting = Gpu.objects.filter(uuid=gpu.uuid, held=True).order_by("pk")
    assert held.duplicate_of is None and waiting.duplicate_of == held
    report(victim, gpu)
    real = Gpu.objects.get(node=victim)
    assert real.duplicate_of is None and real.pool is not None
    for row in (held, waiting):
        row.refresh_from_db()
        assert row.duplicate_of == real
    event = Event.objects.filter(kind="gpu.duplicate").latest("pk")
    assert event.object_id == hostile.pk and "hostile/1 is victim/0" in event.message


def test_release_gives_no_claim_to_a_held_gpu_that_was_faster(
    cast: Cast, add_node: AddNode
) -> None:
    first, hostile = add_node("first"), add_node("hostile")
    (gpu,), own = report_of(first).gpus, report_of(hostile).gpus
    twin = twin_of(first)
    node_remove(node_id=first.pk, actor="admin")
    report(hostile, *own, replace(gpu, index=1))
    release_duplicates()
    assert duplicates_of(twin) == [None]
    assert duplicates_of(hostile) == [None, Gpu.objects.get(node=twin).pk]


def test_admission_takes_the_claim_from_a_held_gpu(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    nodes = [add_node(name) for name in ("a", "b")]
    shared = ReportedGpu(uuid.uuid4(), 1, "Test GPU", 8 * GIB, "12.0")
    for node in nodes:
        report(node, *report_of(node).gpus, shared)
    held, waiting = Gpu.objects.filter(uuid=shared.uuid).order_by("pk")
    body(client_of(cast.olga).post(f"/api/v1/gpus/{waiting.pk}/admit", {}, format="json"))
    for row in (held, waiting):
        row.refresh_from_db()
    assert waiting.duplicate_of is None and held.duplicate_of == waiting


def test_capacity_of_a_gpu_that_became_a_duplicate_is_not_taken(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulates two controllers on PostgreSQL: the claim moves after the snapshot was read."""
    first, alice = add_node("first"), client_of(cast.alice)
    gpu, load_snapshot = Gpu.objects.get(node=first), snapshot_loader.load_snapshot
    other = create_node(name="other")

    def load_then_lose_claim(*args: Any) -> Any:
        loaded = load_snapshot(*args)
        row = Gpu.objects.create(node=other, present=False, **same)
        Gpu.objects.filter(pk=gpu.pk).update(duplicate_of=row)
        return loaded

    columns = ("uuid", "index", "model", "memory_bytes", "compute_capability")
    same = {name: getattr(gpu, name) for name in columns}
    monkeypatch.setattr(snapshot_loader, "load_snapshot", load_then_lose_claim)
    queued = body(alice.post(ALLOCATIONS, WHOLE, format="json"))
    gpu.refresh_from_db()
    assert (queued["state"], gpu.taken_percent) == ("queued", 0)
    for lost in ({"duplicate_of": gpu.duplicate_of}, {"duplicate_of": None, "present": False}):
        Gpu.objects.filter(pk=gpu.pk).update(**lost)
        with pytest.raises(IntegrityError), transaction.atomic():
            lifecycle.take_capacity(gpu.pk, 1, 0)
        lifecycle.take_capacity(gpu.pk, 0, 0)  # a release is always possible


def test_all_changed_duplicates_are_announced(
    cast: Cast, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = add_node("first")
    others = {twin_of(first, name).pk for name in ("twin", "third")}
    node_remove(node_id=first.pk, actor="admin")
    seen: list[tuple[str, Any]] = []
    record = change_log.record

    def spy(topic: Any, object_id: Any = None, removal: Any = None) -> None:
        seen.append((topic, object_id))
        record(topic, object_id, removal)

    monkeypatch.setattr(change_log, "record", spy)
    release_duplicates()
    gpus = set(Gpu.objects.filter(node__in=others).values_list("pk", flat=True))
    assert {pk for topic, pk in seen if topic == "gpu"} == gpus
    assert {pk for topic, pk in seen if topic == "gpu_capacity"} == gpus


@pytest.mark.parametrize(
    ("place", "named"), [("node", None), ("gpu", None), ("pool", None), ("site", "first")]
)
def test_name_of_the_other_node_is_shown_only_to_those_who_may_view_it(
    cast: Cast, client_of: Clients, add_node: AddNode, place: str, named: str | None
) -> None:
    site, first = Site.objects.create(name="north"), add_node("first")
    twin = twin_of(first)
    Node.objects.update(site=site)
    held = Gpu.objects.select_related("pool").get(node=twin)
    where = {"node": twin, "gpu": held, "pool": held.pool, "site": site}[place]
    RoleBinding.objects.create(user=cast.nina, role="operator", **{place: where})
    nina, url = client_of(cast.nina), f"/api/v1/gpus/{held.pk}"
    changed = body(nina.patch(url, {"notes": "x"}, format="json"))
    listed = {gpu["id"]: gpu for gpu in body(nina.get("/api/v1/gpus"))["items"]}
    for shown in (listed[str(held.pk)], body(nina.get(url)), changed):
        assert shown["duplicate_of"] is not None and shown["duplicate_of_node"] == named
    assert body(client_of(cast.alice).get(url))["duplicate_of_node"] == "first"


def test_event_names_both_nodes_and_the_alarm_only_the_held_gpu(
    cast: Cast, add_node: AddNode
) -> None:
    first = add_node("f" * 90, gpus=6)
    twin_of(first, "t" * 90)
    message = Event.objects.get(kind="gpu.duplicate").message
    assert len(message) == 500 and "remove the old node" in message and "two agents" in message
    definition = AlarmDefinition(object_kind=ObjectKind.GPU, states=["duplicate"])
    texts = [finding.message for finding in find_states(definition).values()]
    assert f"GPU {'t' * 90}/0 is held, because another node has the same GPU." in texts
    assert not any(first.name in text for text in texts), "its viewers may not view that node"


def test_unchanged_reports_of_both_nodes_write_nothing(cast: Cast, add_node: AddNode) -> None:
    first = add_node("first")
    twin = twin_of(first)
    before = Event.objects.count()
    for node in (first, twin):
        node.refresh_from_db()
        kept = {
            name: getattr(node, name)
            for name in ("boot_id", "suspends_sessions", "resizes_allocations")
        }
        same = report_of(node, **kept)
        assert record_node_report(node_id=node.pk, report=same) == reports.UNCHANGED_ROWS
    assert Event.objects.count() == before and duplicates_of(first) == [None]


def test_database_refuses_two_claims_of_a_gpu(cast: Cast, add_node: AddNode) -> None:
    first = add_node("first")
    twin = twin_of(first)
    with pytest.raises(IntegrityError), transaction.atomic():
        Gpu.objects.filter(node=twin).update(duplicate_of=None)


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
def test_reports_at_the_same_time_give_one_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both reports look for claims before either is recorded."""
    ensure_default_pool()
    gpu = ReportedGpu(uuid.uuid4(), 0, "Test GPU", 8 * GIB, "12.0")
    nodes = [create_node(name=name) for name in ("a", "b")]
    barrier, find_claims = threading.Barrier(2), duplicates.find_claims
    problems: list[BaseException] = []
    waited: set[int] = set()

    def find_then_wait(*args: Any) -> Any:
        found = find_claims(*args)
        if (thread := threading.get_ident()) not in waited:
            waited.add(thread)
            barrier.wait(WAIT_SECONDS)
        return found

    def send(node: Node) -> None:
        try:
            report(node, gpu)
        except BaseException as problem:
            problems.append(problem)
        finally:
            connection.close()

    monkeypatch.setattr(duplicates, "find_claims", find_then_wait)
    threads = [threading.Thread(target=send, args=(node,)) for node in nodes]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert problems == []
    assert sorted(g.duplicate_of is None for g in Gpu.objects.all()) == [False, True]
