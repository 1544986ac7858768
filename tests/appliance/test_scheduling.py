"""Pools' rules, quotas, preemption and reservations, over REST and the real rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from appliance.accounts.models import Department, Project, Role, RoleBinding, User
from appliance.activity.models import Event
from appliance.allocations import lifecycle, services
from appliance.allocations.models import Allocation, Partition
from appliance.allocations.placement import Policy
from appliance.inventory.models import Gpu, Node
from appliance.pools import fair_share
from appliance.pools.models import Pool, ProjectUse, Quota
from appliance.pools.views import POLICIES
from tests.appliance.conftest import GIB, Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
URL = "/api/v1/allocations"


def ask(client: Any, **wanted: Any) -> dict[str, Any]:
    response = client.post(URL, wanted, format="json")
    assert response.status_code == 202, response.content
    return dict(body(response))


def now(client: Any, allocation: dict[str, Any]) -> dict[str, Any]:
    return dict(body(client.get(f"{URL}/{allocation['id']}")))


def test_the_pools_policies_are_those_of_placement() -> None:
    assert set(POLICIES) == {p.value for p in Policy}


def test_memory_in_bytes_and_whole_gpus(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    add_node(gpus=2)
    alice = client_of(cast.alice)
    memory = ask(alice, memory_bytes=3 * GIB)
    assert (
        memory["partitions"][0]["memory_bytes"] == 3 * GIB
        and memory["partitions"][0]["compute_percent"] == 38
    )
    whole = ask(alice, compute_mode="exclusive")
    assert (
        whole["partitions"][0]["compute_percent"] == 100
        and whole["partitions"][0]["gpu_id"] != memory["partitions"][0]["gpu_id"]
    )
    assert ask(alice, compute_mode="exclusive")["waiting_rule"] == "room"
    refused = alice.post(URL, {"compute_mode": "capped"}, format="json")
    assert refused.status_code == 409 and body(refused)["code"] == "not_supported"


def test_labels_and_model_choose_the_gpu_and_the_reason_names_them(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    near, far = add_node("near"), add_node("far")
    alice, olga = client_of(cast.alice), client_of(cast.olga)
    olga.patch(f"/api/v1/nodes/{far.pk}", {"labels": {"rack": "9"}}, format="json")
    assert ask(alice, percent=10, selector={"rack": "9"})["partitions"][0]["node"] == "far"
    olga.patch(
        f"/api/v1/gpus/{near.gpus.get().pk}",
        {"labels": {"rack": "9", "fast": "yes"}},
        format="json",
    )
    assert (
        ask(alice, percent=10, selector={"rack": "9", "fast": "yes"})["partitions"][0]["node"]
        == "near"
    )
    assert "B200" in ask(alice, percent=10, model="b200")["waiting_reason"].upper()


def test_a_fallback_pool_stands_in(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
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
    assert ask(alice)["placed_pool"] == "default"
    second = ask(alice)
    assert second["pool"] == "default" and second["placed_pool"] == "spare"


def test_an_exclusive_pool_shares_no_gpu(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    add_node()
    default = Pool.objects.get(name="default")
    client_of(cast.olga).patch(
        f"/api/v1/pools/{default.pk}", {"policies": ["exclusive"]}, format="json"
    )
    alice = client_of(cast.alice)
    ask(alice, percent=10)
    assert "exclusive" in ask(alice, percent=10)["waiting_reason"]


def test_a_limit_holds_for_user_project_and_department_and_in_fractions(
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
    ask(alice, percent=100)
    held = ask(alice, percent=60)
    assert held["waiting_rule"] == "limit" and "user alice is 1.5 GPUs" in held["waiting_reason"]
    ask(bob, percent=100)
    assert "project default is 2.3 GPUs" in ask(bob, percent=40)["waiting_reason"]
    quota = Quota.objects.get(subject_kind="project")
    answer = olga.patch(
        f"/api/v1/quotas/{quota.pk}",
        {"limit_gpus": None},
        format="json",
        HTTP_IF_MATCH=f'"{quota.version}"',
    )
    assert body(answer)["limit_gpus"] is None
    stale = olga.patch(
        f"/api/v1/quotas/{quota.pk}",
        {"limit_gpus": 1},
        format="json",
        HTTP_IF_MATCH=f'"{quota.version}"',
    )
    assert stale.status_code == 412
    assert "department research is 2.5 GPUs" in ask(bob, percent=60)["waiting_reason"]
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
        {"subject": "nobody"},
    ],
)
def test_a_wrong_quota_is_refused(cast: Cast, client_of: Clients, wrong: dict[str, Any]) -> None:
    response = client_of(cast.olga).post(
        "/api/v1/quotas", {"subject_kind": "user", "subject": "alice"} | wrong, format="json"
    )
    assert response.status_code in (400, 404), response.content


@pytest.fixture
def blue(cast: Cast) -> Project:
    """Charlie's project is owed one GPU."""
    project = Project.objects.get(name="elsewhere")
    Quota.objects.create(subject_kind="project", subject_id=project.pk, quota_percent=100)
    return project


def test_a_borrower_gets_notice_then_leaves_and_who_is_owed_starts(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    blue: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, alice, charlie = add_node(), client_of(cast.alice), client_of(cast.charlie)
    borrowed = ask(alice)
    applied(node)
    assert now(alice, borrowed)["state"] == "active"
    owed = ask(charlie, project="elsewhere")
    assert owed["waiting_rule"] == "reclaim"
    noticed = now(alice, borrowed)
    assert (
        noticed["state"] == "active"
        and noticed["evict_at"]
        and "better claim" in noticed["end_reason"]
    ), "it had no notice"
    assert Event.objects.filter(kind="allocation.evicting", object_id=borrowed["id"]).count() == 1
    services.queue_advance()
    assert Event.objects.filter(kind="allocation.evicting").count() == 1, "it was asked twice"
    services.end_what_is_due()
    assert now(alice, borrowed)["state"] == "active", "its grace was not over"
    Allocation.objects.filter(pk=borrowed["id"]).update(evict_at=timezone.now())
    services.end_what_is_due()
    assert now(alice, borrowed)["state"] == "releasing"
    assert now(charlie, owed)["state"] == "waiting", "granted before the node had let go"
    applied(node)
    assert now(charlie, owed)["state"] == "preparing"


def test_what_is_not_preemptible_is_not_taken_and_priority_counts_within_a_project(
    cast: Cast, client_of: Clients, add_node: AddNode, blue: Project
) -> None:
    node, alice, bob = add_node(), client_of(cast.alice), client_of(cast.bob)
    fixed = ask(alice, preemptible=False)
    applied(node)
    assert ask(client_of(cast.charlie), project="elsewhere")["waiting_rule"] == "room"
    alice.delete(f"{URL}/{fixed['id']}")
    Allocation.objects.filter(state="waiting").delete()
    applied(node)
    low = ask(alice, priority=10)
    applied(node)
    assert ask(bob, priority=50)["waiting_rule"] == "reclaim"
    assert now(alice, low)["evict_at"]
    assert bob.post(URL, {"priority": 150}, format="json").status_code == 403


def test_a_lifetime_ends_an_allocation_and_the_pool_has_the_last_word(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    default = Pool.objects.get(name="default")
    client_of(cast.olga).patch(
        f"/api/v1/pools/{default.pk}", {"max_lifetime_seconds": 3600}, format="json"
    )
    held = ask(alice, lifetime_seconds=7200)
    assert held["lifetime_seconds"] == 3600
    applied(node)
    services.end_what_is_due()
    assert now(alice, held)["state"] == "active"
    Allocation.objects.filter(pk=held["id"]).update(active_at=timezone.now() - timedelta(hours=1))
    services.end_what_is_due()
    assert now(alice, held)["state"] == "releasing" and "lifetime" in now(alice, held)["end_reason"]


def test_a_reservation_keeps_gpus_for_its_project(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node()
    olga, alice, charlie = client_of(cast.olga), client_of(cast.alice), client_of(cast.charlie)
    wanted = {
        "name": "course", "pool": "default", "project": "elsewhere", "gpu_count": 1, "starts_at": (timezone.now() - timedelta(minutes=1)).isoformat(),
        "ends_at": (timezone.now() + timedelta(hours=1)).isoformat(),
    }  # fmt: skip
    course = body(olga.post("/api/v1/reservations", wanted, format="json"))
    kept_out = ask(alice, percent=10)
    assert kept_out["waiting_rule"] == "reservation" and "course" in kept_out["waiting_reason"]
    assert alice.post(URL, {"reservation_id": course["id"]}, format="json").status_code == 404, (
        "another project's reservation was used"
    )
    assert ask(charlie, project="elsewhere", reservation_id=course["id"])["state"] == "preparing"
    assert olga.delete(f"/api/v1/reservations/{course['id']}").status_code == 204
    backwards = wanted | {"ends_at": wanted["starts_at"]}
    assert olga.post("/api/v1/reservations", backwards, format="json").status_code == 400


def test_a_waiting_request_says_when_and_what_would_start_at_once(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(gpus=2), client_of(cast.alice)
    ask(alice, gpu_count=2, percent=60, lifetime_seconds=600)
    applied(node)
    waiting = ask(alice, gpu_count=2, percent=50)
    explained = body(alice.get(f"{URL}/{waiting['id']}/explanation"))
    assert explained["rule"] == "room" and explained["expected_start_at"]
    assert [a["difference"] for a in explained["alternatives"]] == [
        "37 % of each GPU",
        "25 % of each GPU",
        "12 % of each GPU",
    ]
    chosen = explained["alternatives"][0]
    assert (
        ask(alice, gpu_count=chosen["gpu_count"], percent=chosen["percent"])["state"] == "preparing"
    ), "it did not start at once"


def test_a_plan_shows_which_moves_would_make_gpus_whole(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node(gpus=2)
    alice, default = client_of(cast.alice), Pool.objects.get(name="default")
    Pool.objects.filter(pk=default.pk).update(policies=["spread"])
    ask(alice, percent=30)
    ask(alice, percent=30)
    plan = body(client_of(cast.olga).get(f"/api/v1/pools/{default.pk}/defragmentation"))
    assert (plan["whole_gpus"], plan["whole_gpus_after"], len(plan["moves"])) == (0, 1, 1)


def test_what_another_scheduler_gave_meanwhile_is_not_given_twice(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on PostgreSQL with two schedulers: this one decided on rows that were stale when it wrote."""
    node, alice = add_node(), client_of(cast.alice)
    stale = services.book.opened

    def then_taken(*given: Any) -> Any:
        found = stale(*given)
        lifecycle.take(node.gpus.get().pk, 80, 6 * GIB)
        return found

    monkeypatch.setattr(services.book, "opened", then_taken)
    late = ask(alice, percent=50)
    assert late["state"] == "waiting" and not Partition.objects.exists()
    monkeypatch.undo()
    services.queue_advance()
    assert "20 %" in now(alice, late)["waiting_reason"]


def test_past_use_decays_by_half_every_half_life(cast: Cast, settings: Any) -> None:
    project, half_life = (
        Project.objects.get(name="default"),
        settings.ENVIRONMENT.fair_share_half_life_seconds,
    )
    begun = timezone.now()
    fair_share.count_use(use={project.pk: 100}, now=begun)
    fair_share.count_use(use={project.pk: 100}, now=begun + timedelta(seconds=1000))
    assert ProjectUse.objects.get().percent_seconds == pytest.approx(100_000)
    later = fair_share.past_use(begun + timedelta(seconds=1000 + half_life), fair_share.past_uses())
    assert later[project.pk] == pytest.approx(50_000 / half_life)


def test_projects_show_only_what_one_may_see(cast: Cast, client_of: Clients) -> None:
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
