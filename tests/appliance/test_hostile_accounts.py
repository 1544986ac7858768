"""Account holders who try to leave their project or place, by doors beside those of other tests."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from django.utils import timezone

from appliance.accounts.models import IdempotencyKey, Project, RoleBinding, Source, User
from appliance.alarms.findings import Finding, subject_of
from appliance.alarms.lifecycle import raise_alarms
from appliance.alarms.models import Alarm, AlarmDefinition
from appliance.allocations.index import index
from appliance.allocations.lifecycle import announce_eviction
from appliance.allocations.models import Allocation, Partition
from appliance.api.errors import ApplianceError
from appliance.inventory.models import Gpu, Node, Site
from appliance.pools.models import Pool, Quota
from appliance.signin.external_accounts import new_identity
from appliance.telemetry import reachability
from tests.appliance.conftest import GIB, Cast, applied, body
from tests.appliance.test_bulk import bulk

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
SECRET = "secret-name"


def request_allocation(client: Any, **values: Any) -> Any:
    return client.post("/api/v1/allocations", values, format="json")


@pytest.fixture
def theirs(cast: Cast, client_of: Clients, add_node: AddNode) -> Allocation:
    """An allocation of alice's project, on a node that charlie of another project may drain."""
    node = add_node("first")
    request_allocation(client_of(cast.alice), percent=30, name=SECRET)
    applied(node)
    RoleBinding.objects.create(user=cast.charlie, role="operator", node=node)
    return Allocation.objects.get()


def test_operator_of_a_node_learns_no_names_of_allocations_from_tasks(
    cast: Cast, client_of: Clients, theirs: Allocation
) -> None:
    charlie, node = client_of(cast.charlie), Node.objects.get()
    drained = charlie.post(f"/api/v1/nodes/{node.pk}/enter-maintenance", {}, format="json")
    task = body(drained)["id"]
    assert charlie.get(f"/api/v1/tasks/{task}").status_code == 200
    evictions = body(client_of(cast.alice).get(f"/api/v1/tasks?parent_id={task}"))["items"]
    assert SECRET in evictions[0]["message"]
    for path in (
        "tasks",
        f"tasks?parent_id={task}",
        "events",
        f"nodes/{node.pk}/blockers",
        "partitions",
        f"tasks/{task}/log",
    ):
        answer = charlie.get(f"/api/v1/{path}")
        assert answer.status_code == 200 and SECRET not in str(body(answer)), path
    assert charlie.get(f"/api/v1/tasks/{evictions[0]['id']}").status_code == 404


def test_every_door_to_a_foreign_allocation_is_closed(
    cast: Cast, client_of: Clients, theirs: Allocation
) -> None:
    """Also with headers and parameters that are read before or after the object."""
    charlie = client_of(cast.charlie)
    partition = Partition.objects.get()
    path, key = f"allocations/{theirs.pk}", {"client_public_key": "A" * 43 + "="}
    doors = [
        ("GET", f"{path}?wait=1", None),
        ("DELETE", path, None),
        ("DELETE", f"{path}?dry_run=true", None),
        ("POST", f"{path}/heartbeat", None),
        ("POST", f"{path}/tickets", key),
        ("GET", f"{path}/explanation", None),
        ("GET", f"partitions/{partition.pk}/metrics", None),
        ("GET", f"access?object={path}", None),
        ("GET", f"projects/{theirs.project_id}/metrics", None),
        ("GET", f"projects/{theirs.project_id}", None),
    ]
    for method, door, content in doors:
        for version in ("1", "*", str(theirs.version)):
            answer = charlie.generic(
                method,
                f"/api/v1/{door}",
                "" if content is None else json.dumps(content),
                content_type="application/json",
                HTTP_IF_MATCH=version,
            )
            # As for an absent object (test_if_match.py): `*` asks for one that exists.
            expected = 412 if (method, version) == ("DELETE", "*") else 404
            assert answer.status_code == expected, (method, door, version, answer.content)
    answers = body(bulk(charlie, *[(m, d, c) for m, d, c in doors]))["results"]
    assert {a["status"] for a in answers} == {404}


def test_no_list_shows_a_foreign_allocation(
    cast: Cast, client_of: Clients, theirs: Allocation
) -> None:
    charlie = client_of(cast.charlie)
    for listing in (
        f"events?object_id={theirs.pk}",
        f"events?path=projects/{theirs.project_id}",
        f"tasks?path=projects/{theirs.project_id}",
        f"sessions?allocation_id={theirs.pk}",
        "allocations?state=active",
    ):
        assert body(charlie.get(f"/api/v1/{listing}"))["items"] == [], listing
    named = {"objects": [f"allocations/{theirs.pk}"]}
    actions = charlie.post("/api/v1/actions", named, format="json")
    assert body(actions)["items"][0]["actions"] is None


def test_preempted_owner_learns_no_name_of_another_project(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node()
    request_allocation(client_of(cast.alice), percent=100)
    applied(node)
    Allocation.objects.update(active_at=timezone.now() - timedelta(hours=1))
    theirs = Project.objects.get(name="elsewhere")
    Quota.objects.create(subject_kind="project", subject_id=theirs.pk, quota_percent=100)
    index.reset()
    reachability.record_heartbeat(node.pk)
    request_allocation(client_of(cast.charlie), project="elsewhere", percent=50, name=SECRET)
    victim = body(client_of(cast.alice).get("/api/v1/allocations"))["items"][0]
    events = body(client_of(cast.alice).get("/api/v1/events"))["items"]
    assert "preempted by" in victim["end_reason"]
    assert any("preempted by" in e["message"] for e in events)
    for name in (SECRET, theirs.name):
        assert name not in victim["end_reason"] and name not in str(events)


def test_operator_of_a_pool_reads_no_names_of_allocations_from_alarms(
    cast: Cast, client_of: Clients, theirs: Allocation
) -> None:
    pool = Pool.objects.get(name="default")
    RoleBinding.objects.filter(user=cast.charlie).delete()
    RoleBinding.objects.create(user=cast.charlie, role="operator", pool=pool)
    kind = {"severity": "info", "condition": "state", "states": ["suspended"]}
    rows: tuple[Allocation | Gpu, ...] = (theirs, Gpu.objects.get())
    for row, object_kind in zip(rows, ("allocation", "gpu"), strict=True):
        definition = AlarmDefinition.objects.create(
            name=object_kind, object_kind=object_kind, **kind
        )
        subject = subject_of(row)
        raise_alarms(definition=definition, findings=[Finding(subject, subject.name)])
    about_allocation = Alarm.objects.get(object_kind="allocation")
    assert SECRET in about_allocation.object_name and about_allocation.pool_id == pool.pk

    charlie, url = client_of(cast.charlie), "/api/v1/alarms"
    listed = body(charlie.get(f"{url}?order=object_name&count=true"))
    assert [row["object_kind"] for row in listed["items"]] == ["gpu"] and listed["count"] == 1
    detail = f"{url}/{about_allocation.pk}"
    for answer in (
        charlie.get(detail),
        charlie.get(f"{detail}/history"),
        charlie.post(f"{detail}/acknowledge", {}, format="json"),
    ):
        assert answer.status_code == 404, answer.content
    own = body(client_of(cast.alice).get(f"{url}?object_kind=allocation"))["items"]
    assert [row["id"] for row in own] == [str(about_allocation.pk)]


def test_label_of_a_node_takes_no_request_for_another_site(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    """Requests select a site because of what may be there; its operators cannot claim another."""
    node = add_node("first")
    north = Site.objects.create(name="north")
    Node.objects.update(site=north)
    RoleBinding.objects.create(user=cast.nina, role="operator", site=north)
    nina, gpu = client_of(cast.nina), Gpu.objects.get()
    for path in (f"nodes/{node.pk}", f"gpus/{gpu.pk}"):
        nina.patch(f"/api/v1/{path}", {"labels": {"site": "vault"}}, format="json")
    wanted = {"percent": 5, "allow_pending": True}
    request_allocation(client_of(cast.alice), selector={"site": "vault"}, **wanted)
    assert Allocation.objects.get().state == "queued"
    Node.objects.update(site=None)
    index.reset()
    request_allocation(client_of(cast.alice), selector={"site": "vault"}, **wanted)
    assert set(Allocation.objects.values_list("state", flat=True)) == {"queued"}


@pytest.mark.parametrize("reason", ["no launch or copy for 60 s", "maintenance of node second"])
def test_operator_of_a_node_withdraws_no_other_evictions(
    cast: Cast, client_of: Clients, theirs: Allocation, reason: str
) -> None:
    announce_eviction(theirs, reason=reason, actor="system", seconds=600)
    charlie, node = client_of(cast.charlie), Node.objects.get()
    for step in ("enter", "exit"):
        path = f"/api/v1/nodes/{node.pk}/{step}-maintenance"
        assert charlie.post(path).status_code in (200, 202)
    theirs.refresh_from_db()
    assert theirs.evict_at is not None and theirs.end_reason == reason


def test_drain_of_another_node_goes_on_after_the_first_one_is_withdrawn(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    olga, nodes = client_of(cast.olga), [add_node("first"), add_node("second")]
    request_allocation(client_of(cast.alice), gpu_count=2, percent=30)
    for node in nodes:
        applied(node)
    for node in nodes:
        olga.post(f"/api/v1/nodes/{node.pk}/enter-maintenance", {}, format="json")
    for node, left in zip(nodes, ("maintenance of node second", ""), strict=True):
        assert olga.post(f"/api/v1/nodes/{node.pk}/exit-maintenance").status_code == 200
        allocation = Allocation.objects.get()
        assert allocation.end_reason == left and (allocation.evict_at is None) == (left == "")


def test_reads_by_post_cannot_hold_the_writer(
    cast: Cast, client_of: Clients, theirs: Allocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold(work: object) -> None:
        raise AssertionError("a read was run as a change")

    vera = client_of(cast.vera)
    read = ("POST", "actions", {"objects": [f"allocations/{theirs.pk}"] * 500})
    for query, atomic in (("", True), ("?dry_run=true", False)):
        response = bulk(vera, *[read] * 100, query=query, atomic=atomic, HTTP_IDEMPOTENCY_KEY="k")
        assert response.status_code == 400, body(response)
    assert not IdempotencyKey.objects.exists()
    monkeypatch.setattr("appliance.api.views.dry_run", hold)
    assert vera.post("/api/v1/actions?dry_run=true", read[2], format="json").status_code == 200
    assert bulk(vera, read).status_code == 200


@pytest.mark.parametrize("key", ["9" * 30, "0", "-1", "7"])
def test_label_with_any_key_is_selected(
    cast: Cast, client_of: Clients, add_node: AddNode, key: str
) -> None:
    node, olga = add_node("first"), client_of(cast.olga)
    Node.objects.filter(pk=node.pk).update(labels={key: "x"})
    for selector, count in ((f"{key}=x", 1), (f"{key}!=x", 0), (key, 1), (f"{key}=y", 0)):
        answer = olga.get(f"/api/v1/nodes?labels={quote(selector)}")
        assert answer.status_code == 200 and len(body(answer)["items"]) == count, selector


def test_memory_counts_for_limits(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    """Requests of all memory and 1 % of the compute would leave nothing to others."""
    add_node(gpus=4, memory_bytes=8 * GIB)
    project = Project.objects.get(name="default")
    Quota.objects.create(subject_kind="project", subject_id=project.pk, limit_percent=100)
    index.reset()
    alice, whole = client_of(cast.alice), {"percent": 1, "memory_bytes": 8 * GIB}
    assert request_allocation(alice, **whole).status_code == 202
    second = request_allocation(alice, **whole, allow_pending=True)
    assert body(second)["waiting_rule"] == "limit", body(second)
    index.reset()
    assert body(request_allocation(alice, percent=1, allow_pending=True))["waiting_rule"] == "limit"


def test_queue_has_few_requests_of_a_user(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick tries all of them, and with a lifetime they wait for a year without a client."""
    add_node()
    monkeypatch.setattr("appliance.allocations.services.MAX_QUEUED", 3)
    alice, bob = client_of(cast.alice), client_of(cast.bob)
    wanted = {"percent": 100, "hold": "lifetime", "lifetime_seconds": 60}
    made = [request_allocation(alice, **wanted).status_code for _ in range(5)]
    assert made == [202, 202, 202, 202, 409], "the first one starts"
    assert Allocation.objects.count() == 4
    assert request_allocation(bob, **wanted).status_code == 202


def test_pool_of_others_is_neither_seen_nor_found(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node("first")
    ours = Project.objects.get(name="default")
    pool = Pool.objects.create(name="hidden", project_ids=[str(ours.pk)])
    Gpu.objects.update(pool=pool, labels={"colour": "red"})
    charlie = client_of(cast.charlie)
    for listing in (
        "gpus?pool=hidden",
        "gpus?labels=colour",
        "gpus?labels=colour%21%3Dred",
        "partitions",
        "reservations",
    ):
        assert body(charlie.get(f"/api/v1/{listing}"))["items"] == [], listing
    assert "hidden" not in str(body(charlie.get("/api/v1/pools")))
    wanted = {"project": "elsewhere", "percent": 1}
    answers = [
        body(request_allocation(charlie, pool=name, **wanted)) for name in ("hidden", "absent")
    ]
    assert answers[0]["detail"].replace("hidden", "absent") == answers[1]["detail"]


def test_names_that_the_audit_uses_itself_are_no_accounts(cast: Cast, client_of: Clients) -> None:
    admin = client_of(cast.admin)
    for name in ("system", "others", "System", "ｓｙｓｔｅｍ", "ad\u200bmin", "admin\u00ad", "ﬁ"):
        made = admin.post("/api/v1/users", {"username": name}, format="json")
        assert made.status_code == 400, body(made)
        with pytest.raises(ApplianceError, match="name"):
            new_identity(issuer="i", subject="s", username=name, email="", source=Source.OIDC)
    made = admin.post("/api/v1/users", {"username": "systemd-josé"}, format="json")
    assert made.status_code == 201, body(made)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "now"])
def test_cursor_that_no_page_has_made_is_refused(cast: Cast, client_of: Clients, time: str) -> None:
    content = json.dumps(["starts_at", time, str(cast.vera.pk)])
    cursor = base64.urlsafe_b64encode(content.encode()).decode()
    answer = client_of(cast.vera).get(f"/api/v1/reservations?order=starts_at&cursor={cursor}")
    assert answer.status_code == 400, body(answer)
