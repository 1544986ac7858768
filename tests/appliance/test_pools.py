"""Pools: restriction to projects, idle limits and deletion; filters by labels."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from appliance.accounts.models import Project, User
from appliance.activity.consumers import scope_of
from appliance.activity.feed import Subscriber, hub
from appliance.allocations import eviction, idleness
from appliance.allocations.models import Allocation
from appliance.inventory.gpu_views import gpu_rows, visible_gpu_ids
from appliance.inventory.models import Gpu, Node
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
WAITING = {"percent": 10, "allow_pending": True}


def create(olga: Any, **settings: Any) -> dict[str, Any]:
    response = olga.post("/api/v1/pools", {"name": "physics", **settings}, format="json")
    assert response.status_code == 201, response.content
    pool: dict[str, Any] = body(response)
    return pool


@pytest.fixture
def restricted_and_free(cast: Cast, client_of: Clients, add_node: AddNode) -> tuple[Gpu, Gpu]:
    """A GPU of pool physics, which is only for project default, and one of the default pool."""
    node, olga = add_node(gpus=2), client_of(cast.olga)
    restricted, free = node.gpus.order_by("index")
    create(olga, projects=["default"])
    moved = olga.patch(f"/api/v1/gpus/{restricted.pk}", {"pool": "physics"}, format="json")
    assert body(moved)["pool"] == "physics"
    return restricted, free


@pytest.mark.django_db
def test_restricted_pool_is_hidden_from_other_projects(
    cast: Cast, client_of: Clients, restricted_and_free: tuple[Gpu, Gpu]
) -> None:
    restricted, free = restricted_and_free
    charlie, both = client_of(cast.charlie), {str(restricted.pk), str(free.pk)}
    ids = {
        name: {g["id"] for g in body(client_of(getattr(cast, name)).get("/api/v1/gpus"))["items"]}
        for name in ("alice", "charlie", "olga", "vera")
    }
    assert ids == {"alice": both, "charlie": {str(free.pk)}, "olga": both, "vera": both}
    for path in (f"gpus/{restricted.pk}", f"gpus/{restricted.pk}/metrics"):
        assert charlie.get(f"/api/v1/{path}").status_code == 404
    assert {p["name"] for p in body(charlie.get("/api/v1/pools"))["items"]} == {"default"}
    assert visible_gpu_ids(cast.charlie, [*both, "no id"]) == {str(free.pk)}
    ((_, privilege, audience, _),) = gpu_rows([restricted.pk])
    assert scope_of(cast.alice).sees(privilege, audience)
    assert not scope_of(cast.charlie).sees(privilege, audience)


@pytest.mark.django_db
def test_restricted_pool_is_granted_to_its_projects_only(
    cast: Cast, client_of: Clients, restricted_and_free: tuple[Gpu, Gpu]
) -> None:
    restricted, _ = restricted_and_free
    alice, charlie = client_of(cast.alice), client_of(cast.charlie)
    wanted = {"percent": 10, "pool": "physics"}
    refused = charlie.post("/api/v1/allocations", {**wanted, "project": "elsewhere"}, format="json")
    assert refused.status_code == 404
    asked = alice.post("/api/v1/allocations", wanted, format="json")
    assert body(asked)["partitions"][0]["gpu_id"] == str(restricted.pk)
    assert len(body(alice.get("/api/v1/partitions"))["items"]) == 1
    assert body(charlie.get("/api/v1/partitions"))["items"] == []


@pytest.mark.django_db
def test_name_of_a_restricted_pool_is_hidden_from_other_projects(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga, charlie = add_node(gpus=2), client_of(cast.olga), client_of(cast.charlie)
    physics = create(olga, projects=["default"])
    gpu = node.gpus.order_by("index")[0]
    olga.patch(f"/api/v1/gpus/{gpu.pk}", {"pool": "physics", "notes": "x"}, format="json")
    default = next(p for p in body(olga.get("/api/v1/pools"))["items"] if p["name"] == "default")
    olga.patch(f"/api/v1/pools/{default['id']}", {"fallbacks": ["physics"]}, format="json")
    olga.patch(f"/api/v1/pools/{physics['id']}", {"network": "fast"}, format="json")
    reserved = {"name": "r", "pool": "physics", "project": "default", "gpu_count": 1}
    times = {
        f: timezone.now() + timedelta(days=n) for n, f in enumerate(("starts_at", "ends_at"), 8)
    }
    made = olga.post("/api/v1/reservations", reserved | times, format="json")
    assert made.status_code == 201, body(made)
    wanted = {"percent": 100, "project": "elsewhere"}
    asked = [body(charlie.post("/api/v1/allocations", wanted, format="json")) for _ in range(2)]
    assert asked[1]["state"] == "queued"
    paths = [
        "pools",
        f"pools/{default['id']}",
        "reservations",
        "events?limit=500",
        f"allocations/{asked[1]['id']}/explanation",
    ]
    shown = {p: charlie.get(f"/api/v1/{p}") for p in paths}
    assert {p: r.status_code for p, r in shown.items()} == dict.fromkeys(paths, 200)
    assert [p for p, r in shown.items() if b"physics" in r.content] == []
    seen = {p: client_of(cast.vera).get(f"/api/v1/{p}").content for p in paths[:4]}
    assert [p for p, content in seen.items() if b"physics" not in content] == []


@pytest.mark.django_db
def test_fallback_restricted_to_other_projects_is_skipped(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(gpus=1), client_of(cast.olga)
    create(olga, projects=["elsewhere"])
    olga.patch(f"/api/v1/gpus/{node.gpus.get().pk}", {"pool": "physics"}, format="json")
    default = next(p for p in body(olga.get("/api/v1/pools"))["items"] if p["name"] == "default")
    assert (
        olga.patch(
            f"/api/v1/pools/{default['id']}", {"fallbacks": ["physics"]}, format="json"
        ).status_code
        == 200
    )
    assert (
        body(client_of(cast.alice).post("/api/v1/allocations", WAITING, format="json"))["state"]
        == "queued"
    )
    assert (
        body(
            client_of(cast.charlie).post(
                "/api/v1/allocations", {"percent": 10, "project": "elsewhere"}, format="json"
            )
        )["placed_pool"]
        == "physics"
    )


@pytest.mark.django_db
def test_pool_in_use_names_its_blockers_and_empty_pool_is_deleted(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga, alice = add_node(), client_of(cast.olga), client_of(cast.alice)
    pool, gpu = create(olga), node.gpus.get()
    olga.patch(f"/api/v1/gpus/{gpu.pk}", {"pool": "physics"}, format="json")
    asked = body(
        alice.post("/api/v1/allocations", {"percent": 10, "pool": "physics"}, format="json")
    )
    refused = olga.delete(f"/api/v1/pools/{pool['id']}")
    assert refused.status_code == 409 and {b["kind"] for b in body(refused)["blockers"]} == {
        "gpu",
        "allocation",
    }
    olga.patch(f"/api/v1/gpus/{gpu.pk}", {"pool": "default"}, format="json")
    alice.delete(f"/api/v1/allocations/{asked['id']}")
    applied(node)
    assert olga.delete(f"/api/v1/pools/{pool['id']}").status_code == 204
    assert body(alice.get(f"/api/v1/allocations/{asked['id']}"))["pool"] is None
    default = next(p for p in body(olga.get("/api/v1/pools"))["items"])
    assert olga.delete(f"/api/v1/pools/{default['id']}").status_code == 409


@pytest.mark.django_db
@pytest.mark.parametrize("nothing", [0, None])
def test_maximum_of_a_pool_ends_with_0_and_with_null(
    cast: Cast, client_of: Clients, nothing: int | None
) -> None:
    olga = client_of(cast.olga)
    limits = {"max_idle_seconds": 600, "max_late_seconds": 60}
    made = body(olga.post("/api/v1/pools", {"name": "night", **limits}, format="json"))
    path = f"/api/v1/pools/{made['id']}"
    changed = body(olga.patch(path, {"max_idle_seconds": nothing}, format="json"))
    assert changed == made | {"max_idle_seconds": None, "version": made["version"] + 1}


@pytest.mark.django_db
def test_allocation_idle_beyond_the_pool_limit_gets_notice(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    default = next(p for p in body(alice.get("/api/v1/pools"))["items"])
    client_of(cast.olga).patch(
        f"/api/v1/pools/{default['id']}", {"max_idle_seconds": 600}, format="json"
    )
    busy, idle = (
        body(alice.post("/api/v1/allocations", {"percent": 10}, format="json"))["id"]
        for _ in range(2)
    )
    applied(node)
    later = idleness.time.monotonic() + 601
    monkeypatch.setattr(idleness.time, "monotonic", lambda: later)
    row = Allocation.objects.get(pk=busy)
    idleness.record_work(row.pk, row.pk, 7)
    monkeypatch.setattr(eviction.leases, "seconds_since_renewal", lambda allocation_id: 0.0)
    eviction.evict_expired()
    assert Allocation.objects.get(pk=busy).evict_at is None
    noticed = Allocation.objects.get(pk=idle)
    assert noticed.evict_at is not None and "no launch or copy for 600 s" in noticed.end_reason


@pytest.mark.django_db
def test_gpu_in_no_pool_gets_no_partition(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    gpu = add_node().gpus.get()
    client_of(cast.olga).patch(f"/api/v1/gpus/{gpu.pk}", {"pool": ""}, format="json")
    assert Gpu.objects.get(pk=gpu.pk).pool is None
    assert (
        body(client_of(cast.alice).post("/api/v1/allocations", WAITING, format="json"))["state"]
        == "queued"
    )


@pytest.mark.django_db
def test_label_filter_matches_exact_text(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    """Numbers, quotes and keywords are plain text, and keys never become part of a lookup."""
    olga, node = client_of(cast.olga), add_node()
    labels = {"rack": "r1", "count": "12", "quote": 'it\'s "so"', "a__b": "null", "flag": "true"}
    assert (
        olga.patch(f"/api/v1/nodes/{node.pk}", {"labels": labels}, format="json").status_code == 200
    )
    for key, value in labels.items():
        for wanted, found in ((value, 1), (value + "x", 0)):
            assert (
                len(body(olga.get("/api/v1/nodes", {"labels": f"{key}={wanted}"}))["items"])
                == found
            ), (key, wanted)
    assert len(body(olga.get("/api/v1/nodes", {"labels": "rack=r1,count=12"}))["items"]) == 1
    assert len(body(olga.get("/api/v1/nodes", {"labels": "rack=r1,count=13"}))["items"]) == 0


@contextmanager
def subscribed(users: dict[str, User]) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Yield a function that returns a pool as the feed last showed it, by the users' names."""
    loop = asyncio.new_event_loop()
    sockets = {name: Subscriber(loop, scope_of(user)) for name, user in users.items()}

    def fed(pool_id: str) -> dict[str, Any]:
        loop.run_until_complete(asyncio.sleep(0))
        found: dict[str, Any] = {}
        for name, socket in sockets.items():
            changes = batch.changes if (batch := socket.take()) else {}
            found[name] = json.loads(changes["pool", pool_id].text)["row"]
        return found

    for socket in sockets.values():
        hub.join(socket)
    try:
        yield fed
    finally:
        for socket in sockets.values():
            hub.leave(socket)
        loop.close()


@pytest.mark.django_db(transaction=True)
def test_feed_shows_changed_pools_as_a_list_shows_them_to_each_user(
    cast: Cast, client_of: Clients
) -> None:
    users = {name: getattr(cast, name) for name in ("olga", "alice", "charlie")}
    olga = client_of(cast.olga)
    secret = create(olga, name="secret", projects=["elsewhere"])
    pool = create(olga, projects=["default", "elsewhere"], fallbacks=["secret", "default"])
    path, restricted = f"/api/v1/pools/{pool['id']}", f"/api/v1/pools/{secret['id']}"
    project = Project.objects.get(name="elsewhere")

    with subscribed(users) as fed:

        def shown() -> dict[str, Any]:
            """Return the pool as feed and list show it."""
            rows = fed(pool["id"])
            for name, user in users.items():
                listed = body(client_of(user).get("/api/v1/pools"))["items"]
                assert rows[name] in listed, name
            return rows

        assert olga.patch(path, {"max_idle_seconds": 60}, format="json").status_code == 200
        rows = shown()
        assert rows["olga"]["projects"] == ["default", "elsewhere"]
        assert rows["alice"]["projects"] == rows["alice"]["fallbacks"] == ["default"]
        assert rows["charlie"]["fallbacks"] == ["secret", "default"]
        renamed = client_of(cast.admin).patch(
            f"/api/v1/projects/{project.pk}", {"name": "analysis"}, format="json"
        )
        assert renamed.status_code == 200
        assert shown()["charlie"]["projects"] == ["analysis"]
        for projects, seen in ((["default"], True), (["analysis"], False)):
            changed = olga.patch(restricted, {"projects": projects}, format="json")
            assert changed.status_code == 200
            assert ("secret" in shown()["alice"]["fallbacks"]) == seen
        assert olga.delete(restricted).status_code == 204
        assert shown()["olga"]["fallbacks"] == ["default"]
