"""Policies, quotas, preemption and reservations over REST and the database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from appliance.accounts.models import Department, Project, Role, RoleBinding, User
from appliance.activity.models import Event
from appliance.allocations import eviction, lifecycle, scheduler, snapshot_loader
from appliance.allocations.models import Allocation, Partition
from appliance.allocations.placement import Policy
from appliance.fleet.desired_state import build_desired_state
from appliance.inventory.models import Gpu, Node
from appliance.inventory.reports import record_node_report
from appliance.pools import fair_share
from appliance.pools.models import Pool, ProjectUse, Quota
from appliance.pools.pool_views import POLICIES
from tests.appliance.conftest import GIB, Cast, applied, body
from tests.appliance.test_inventory import report_of

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
URL = "/api/v1/allocations"


def request_allocation(client: Any, **values: Any) -> dict[str, Any]:
    response = client.post(URL, values, format="json")
    assert response.status_code == 202, response.content
    return dict(body(response))


def read_allocation(client: Any, allocation: dict[str, Any]) -> dict[str, Any]:
    return dict(body(client.get(f"{URL}/{allocation['id']}")))


def test_policies_of_the_api_are_those_of_placement() -> None:
    assert set(POLICIES) == {p.value for p in Policy}


def test_request_in_bytes_and_for_a_whole_gpu_use_separate_gpus(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node(gpus=2)
    alice = client_of(cast.alice)
    memory = request_allocation(alice, memory_bytes=3 * GIB)
    assert (
        memory["partitions"][0]["memory_bytes"] == 3 * GIB
        and memory["partitions"][0]["compute_percent"] == 38
    )
    whole = request_allocation(alice, compute_mode="exclusive")
    assert (
        whole["partitions"][0]["compute_percent"] == 100
        and whole["partitions"][0]["gpu_id"] != memory["partitions"][0]["gpu_id"]
    )
    assert request_allocation(alice, compute_mode="exclusive")["waiting_rule"] == "capacity"


def test_node_is_told_the_compute_mode(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    node = add_node(gpus=2)
    alice = client_of(cast.alice)
    modes = {request_allocation(alice, compute_mode="exclusive")["id"]: "exclusive"}
    for mode in ("shared", "capped", "guaranteed"):
        modes[request_allocation(alice, percent=25, compute_mode=mode)["id"]] = mode
    grants = build_desired_state(node.pk).grants
    assert {str(UUID(bytes=g.allocation_id)): g.compute_mode for g in grants} == modes


def test_labels_and_model_select_the_gpu(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    near, far = add_node("near"), add_node("far")
    alice, olga = client_of(cast.alice), client_of(cast.olga)
    olga.patch(f"/api/v1/nodes/{far.pk}", {"labels": {"rack": "9"}}, format="json")
    assert (
        request_allocation(alice, percent=10, selector={"rack": "9"})["partitions"][0]["node"]
        == "far"
    )
    olga.patch(
        f"/api/v1/gpus/{near.gpus.get().pk}",
        {"labels": {"rack": "9", "fast": "yes"}},
        format="json",
    )
    assert (
        request_allocation(alice, percent=10, selector={"rack": "9", "fast": "yes"})["partitions"][
            0
        ]["node"]
        == "near"
    )
    waiting = request_allocation(alice, percent=10, model="b200", allow_pending=True)
    assert "B200" in waiting["waiting_reason"].upper()


def test_fallback_pool_is_used_when_the_pool_is_full(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node(gpus=2)
    olga, alice = client_of(cast.olga), client_of(cast.alice)
    assert (
        olga.post(
            "/api/v1/pools", {"name": "spare", "policies": ["spread"]}, format="json"
        ).status_code
        == 201
    )
    Gpu.objects.filter(node=node, index=1).update(pool=Pool.objects.get(name="spare"))
    default = Pool.objects.get(name="default")
    changed = olga.patch(f"/api/v1/pools/{default.pk}", {"fallbacks": ["spare"]}, format="json")
    assert body(changed)["fallbacks"] == ["spare"]
    assert request_allocation(alice)["placed_pool"] == "default"
    second = request_allocation(alice)
    assert second["pool"] == "default" and second["placed_pool"] == "spare"


def test_exclusive_pool_places_one_partition_per_gpu(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node()
    default = Pool.objects.get(name="default")
    client_of(cast.olga).patch(
        f"/api/v1/pools/{default.pk}", {"policies": ["exclusive"]}, format="json"
    )
    alice = client_of(cast.alice)
    request_allocation(alice, percent=10)
    assert "exclusive" in request_allocation(alice, percent=10)["waiting_reason"]


def set_limit(client: Any, quota: Quota, gpus: int | None) -> Any:
    """Change the limit, if the quota still has this version."""
    return client.patch(
        f"/api/v1/quotas/{quota.pk}",
        {"limit_gpus": gpus},
        format="json",
        HTTP_IF_MATCH=f'"{quota.version}"',
    )


def test_limits_of_user_project_and_department_are_enforced(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node(gpus=4)
    olga, alice, bob = client_of(cast.olga), client_of(cast.alice), client_of(cast.bob)
    research = Department.objects.create(name="research")
    Project.objects.filter(name="default").update(department=research)
    for kind, subject, limit in (
        ("user", "alice", 1.5),
        ("project", "default", 2.3),
        ("department", "research", 2.5),
    ):
        wanted = {"subject_kind": kind, "subject": subject, "limit_gpus": limit}
        assert olga.post("/api/v1/quotas", wanted, format="json").status_code == 201
    request_allocation(alice, percent=100)
    held = request_allocation(alice, percent=60)
    assert held["waiting_rule"] == "limit" and "user alice is 1.5 GPUs" in held["waiting_reason"]
    request_allocation(bob, percent=100)
    assert "project default is 2.3 GPUs" in request_allocation(bob, percent=40)["waiting_reason"]
    quota = Quota.objects.get(subject_kind="project")
    assert body(set_limit(olga, quota, None))["limit_gpus"] is None
    assert set_limit(olga, quota, 1).status_code == 412, "the row has another version now"
    assert (
        "department research is 2.5 GPUs" in request_allocation(bob, percent=60)["waiting_reason"]
    )
    assert (
        olga.post(
            "/api/v1/quotas", {"subject_kind": "user", "subject": "alice"}, format="json"
        ).status_code
        == 409
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit_gpus": -1},
        {"limit_gpus": True},
        {"limit_gpus": "x"},
        {"weight": 0},
        {"subject_kind": "pet"},
        {"subject": "unknown"},
    ],
)
def test_invalid_quota_is_rejected(cast: Cast, client_of: Clients, wrong: dict[str, Any]) -> None:
    response = client_of(cast.olga).post(
        "/api/v1/quotas", {"subject_kind": "user", "subject": "alice"} | wrong, format="json"
    )
    assert response.status_code in (400, 404), response.content


@pytest.fixture
def blue(cast: Cast) -> Project:
    """The project of Charlie, with a quota of one GPU."""
    project = Project.objects.get(name="elsewhere")
    Quota.objects.create(subject_kind="project", subject_id=project.pk, quota_percent=100)
    return project


def test_borrower_is_evicted_after_notice_for_a_request_within_quota(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    blue: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, alice, charlie = add_node(), client_of(cast.alice), client_of(cast.charlie)
    borrowed = request_allocation(alice)
    applied(node)
    assert read_allocation(alice, borrowed)["state"] == "active"
    entitled = request_allocation(charlie, project="elsewhere")
    assert entitled["waiting_rule"] == "reclaim"
    notified = read_allocation(alice, borrowed)
    assert (
        notified["state"] == "active"
        and notified["evict_at"]
        and "preempted by" in notified["end_reason"]
    ), "evicted without notice"
    assert Event.objects.filter(kind="allocation.evicting", object_id=borrowed["id"]).count() == 1
    scheduler.run_tick()
    assert Event.objects.filter(kind="allocation.evicting").count() == 1, (
        "the eviction was announced twice"
    )
    eviction.evict_expired()
    assert read_allocation(alice, borrowed)["state"] == "active", "evicted during the grace period"
    Allocation.objects.filter(pk=borrowed["id"]).update(evict_at=timezone.now())
    eviction.evict_expired()
    assert read_allocation(alice, borrowed)["state"] == "releasing"
    assert read_allocation(charlie, entitled)["state"] == "queued", (
        "granted before the node confirmed the release"
    )
    applied(node)
    assert read_allocation(charlie, entitled)["state"] == "preparing"


def test_non_preemptible_allocation_stays_and_lower_priority_is_preempted(
    cast: Cast, client_of: Clients, add_node: AddNode, blue: Project
) -> None:
    node, alice, bob = add_node(), client_of(cast.alice), client_of(cast.bob)
    fixed = request_allocation(alice, preemptible=False)
    applied(node)
    assert (
        request_allocation(client_of(cast.charlie), project="elsewhere")["waiting_rule"]
        == "capacity"
    )
    alice.delete(f"{URL}/{fixed['id']}")
    Allocation.objects.filter(state="queued").delete()
    applied(node)
    low = request_allocation(alice, priority=10)
    applied(node)
    assert request_allocation(bob, priority=50)["waiting_rule"] == "reclaim"
    assert read_allocation(alice, low)["evict_at"]
    assert bob.post(URL, {"priority": 150}, format="json").status_code == 403


def test_allocation_ends_after_the_shorter_lifetime_of_request_and_pool(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    default = Pool.objects.get(name="default")
    client_of(cast.olga).patch(
        f"/api/v1/pools/{default.pk}", {"max_lifetime_seconds": 3600}, format="json"
    )
    held = request_allocation(alice, lifetime_seconds=7200)
    assert held["lifetime_seconds"] == 3600
    applied(node)
    eviction.evict_expired()
    assert read_allocation(alice, held)["state"] == "active"
    Allocation.objects.filter(pk=held["id"]).update(active_at=timezone.now() - timedelta(hours=1))
    eviction.evict_expired()
    assert (
        read_allocation(alice, held)["state"] == "releasing"
        and "lifetime" in read_allocation(alice, held)["end_reason"]
    )


def test_reservation_keeps_gpus_for_its_project(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node()
    olga, alice, charlie = client_of(cast.olga), client_of(cast.alice), client_of(cast.charlie)
    wanted = {
        "name": "course",
        "pool": "default",
        "project": "elsewhere",
        "gpu_count": 1,
        "starts_at": (timezone.now() - timedelta(minutes=1)).isoformat(),
        "ends_at": (timezone.now() + timedelta(hours=1)).isoformat(),
    }
    course = body(olga.post("/api/v1/reservations", wanted, format="json"))
    blocked = request_allocation(alice, percent=10)
    assert blocked["waiting_rule"] == "reservation"
    assert "kept for a reservation" in blocked["waiting_reason"], "without the name of another's"
    assert alice.post(URL, {"reservation_id": course["id"]}, format="json").status_code == 404, (
        "the reservation of another project was used"
    )
    assert (
        request_allocation(charlie, project="elsewhere", reservation_id=course["id"])["state"]
        == "preparing"
    )
    assert olga.delete(f"/api/v1/reservations/{course['id']}").status_code == 204
    backwards = wanted | {"ends_at": wanted["starts_at"]}
    assert olga.post("/api/v1/reservations", backwards, format="json").status_code == 400


def test_reservation_without_room_for_a_context_keeps_nothing(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga, alice = add_node(), client_of(cast.olga), client_of(cast.alice)
    wanted = {
        "name": "course",
        "pool": "default",
        "project": "elsewhere",
        "gpu_count": 1,
        "percent": 5,
        "starts_at": timezone.now().isoformat(),
        "ends_at": (timezone.now() + timedelta(hours=1)).isoformat(),
    }
    assert olga.post("/api/v1/reservations", wanted, format="json").status_code == 201
    assert request_allocation(alice, percent=100)["waiting_rule"] == "reservation"
    reported = report_of(node)
    gpus = tuple(replace(g, context_bytes=GIB) for g in reported.gpus)
    record_node_report(node_id=node.pk, report=replace(reported, gpus=gpus))
    scheduler.run_tick()
    assert Allocation.objects.get().state == "preparing"


def test_explanation_has_expected_start_and_alternatives(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(gpus=2), client_of(cast.alice)
    request_allocation(alice, gpu_count=2, percent=60, lifetime_seconds=600)
    applied(node)
    queued = request_allocation(alice, gpu_count=2, percent=50)
    explained = body(alice.get(f"{URL}/{queued['id']}/explanation"))
    assert explained["rule"] == "capacity" and explained["expected_start_at"]
    assert [a["difference"] for a in explained["alternatives"]] == [
        "37 % of each GPU",
        "25 % of each GPU",
        "12 % of each GPU",
    ]
    chosen = explained["alternatives"][0]
    assert (
        request_allocation(alice, gpu_count=chosen["gpu_count"], percent=chosen["percent"])["state"]
        == "preparing"
    ), "the alternative did not start at once"


def test_defragmentation_plan_counts_emptied_gpus(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node(gpus=2)
    alice, default = client_of(cast.alice), Pool.objects.get(name="default")
    Pool.objects.filter(pk=default.pk).update(policies=["spread"])
    request_allocation(alice, percent=30)
    request_allocation(alice, percent=30)
    plan = body(client_of(cast.olga).get(f"/api/v1/pools/{default.pk}/defragmentation"))
    assert (plan["whole_gpus"], plan["whole_gpus_after"], len(plan["moves"])) == (0, 1, 1)


def test_stale_decision_is_discarded_when_another_scheduler_was_faster(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulates two schedulers on PostgreSQL: the capacity is taken after the snapshot was read."""
    node, alice = add_node(), client_of(cast.alice)
    load_snapshot = snapshot_loader.load_snapshot

    def load_then_take(*args: Any) -> Any:
        loaded = load_snapshot(*args)
        lifecycle.take_capacity(node.gpus.get().pk, 80, 6 * GIB)
        return loaded

    monkeypatch.setattr(snapshot_loader, "load_snapshot", load_then_take)
    queued = request_allocation(alice, percent=50)
    assert queued["state"] == "queued" and not Partition.objects.exists()
    monkeypatch.undo()
    scheduler.run_tick()
    assert "20 %" in read_allocation(alice, queued)["waiting_reason"]


def test_past_use_halves_every_half_life(cast: Cast, settings: Any) -> None:
    project, half_life = (
        Project.objects.get(name="default"),
        settings.ENVIRONMENT.fair_share_half_life_seconds,
    )
    begun = timezone.now()
    fair_share.record_use(use={project.pk: 100}, now=begun)
    fair_share.record_use(use={project.pk: 100}, now=begun + timedelta(seconds=1000))
    assert ProjectUse.objects.get().percent_seconds == pytest.approx(100_000)
    later = fair_share.mean_past_use(
        begun + timedelta(seconds=1000 + half_life), fair_share.load_past_use()
    )
    assert later[project.pk] == pytest.approx(50_000 / half_life)


def test_project_list_shows_only_visible_projects(cast: Cast, client_of: Clients) -> None:
    admin = client_of(cast.admin)
    assert admin.post("/api/v1/departments", {"name": "research"}, format="json").status_code == 201
    made = admin.post(
        "/api/v1/projects", {"name": "green", "department": "research"}, format="json"
    )
    assert body(made)["department"] == "research"
    assert admin.post("/api/v1/projects", {"name": "green"}, format="json").status_code == 409
    assert [p["name"] for p in body(client_of(cast.charlie).get("/api/v1/projects"))["items"]] == [
        "elsewhere"
    ]
    RoleBinding.objects.create(user=cast.charlie, project_id=body(made)["id"], role=Role.VIEWER)
    assert {p["name"] for p in body(client_of(cast.charlie).get("/api/v1/projects"))["items"]} == {
        "elsewhere",
        "green",
    }
    changed = admin.patch(f"/api/v1/projects/{body(made)['id']}", {"department": ""}, format="json")
    assert body(changed)["department"] is None
