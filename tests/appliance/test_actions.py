"""Actions of objects: what a detail announces is what the request then does, for every user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver
from django.utils import timezone

from appliance.accounts import actions
from appliance.accounts.models import (
    CustomRole,
    Department,
    Group,
    GroupMember,
    Project,
    RoleBinding,
    User,
)
from appliance.accounts.permissions import can_somewhere
from appliance.accounts.services import token_create
from appliance.allocations.models import Allocation, AllocationState
from appliance.inventory.models import Gpu, Node, NodeState
from appliance.pools.models import Pool, Reservation
from tests.appliance import action_objects
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
USERS = (
    "alice",
    "bob",
    "charlie",
    "oscar",
    "ada",
    "viola",
    "olga",
    "vera",
    "nina",
    "mara",
    "admin",
)
TRIED_USERS = ("alice", "ada", "admin", "gone", "service")
KEY = {"client_public_key": "A" * 43 + "="}
REQUESTS: dict[tuple[str, str], tuple[str, str, Any]] = {
    ("allocations", "release"): ("DELETE", "", None),
    ("allocations", "resize"): ("PATCH", "", {"percent": 59}),
    ("allocations", "suspend"): ("POST", "/suspend", None),
    ("allocations", "resume"): ("POST", "/resume", None),
    ("allocations", "heartbeat"): ("POST", "/heartbeat", None),
    ("allocations", "tickets"): ("POST", "/tickets", KEY),
    ("allocations", "force_release"): ("POST", "/force-release", None),
    ("departments", "rename"): ("PATCH", "", {"name": "another"}),
    ("departments", "delete"): ("DELETE", "", None),
    ("gpus", "update"): ("PATCH", "", {"notes": "dusty"}),
    ("gpus", "admit"): ("POST", "/admit", {}),
    ("groups", "rename"): ("PATCH", "", {"name": "another"}),
    ("groups", "add_member"): ("POST", "/members", {"user": "vera"}),
    ("groups", "delete"): ("DELETE", "", None),
    ("nodes", "update"): ("PATCH", "", {"notes": "dusty"}),
    ("nodes", "cordon"): ("POST", "/cordon", None),
    ("nodes", "uncordon"): ("POST", "/uncordon", None),
    ("nodes", "unlock"): ("POST", "/unlock", None),
    ("nodes", "remove"): ("DELETE", "", None),
    ("nodes", "enter_maintenance"): ("POST", "/enter-maintenance", {"grace_seconds": 60}),
    ("nodes", "exit_maintenance"): ("POST", "/exit-maintenance", None),
    ("pools", "update"): ("PATCH", "", {"max_idle_seconds": 60}),
    ("pools", "delete"): ("DELETE", "", None),
    ("projects", "move"): ("PATCH", "", {"department": "science"}),
    ("projects", "rename"): ("PATCH", "", {"name": "another"}),
    ("projects", "delete"): ("DELETE", "", None),
    ("users", "update"): ("PATCH", "", {"email": "person@example.org"}),
    ("users", "deactivate"): ("PATCH", "", {"is_active": False}),
    ("users", "reset_password"): ("POST", "/reset-password", None),
    ("users", "reset_second_factor"): ("DELETE", "/second-factor", None),
    ("users", "delete"): ("DELETE", "", None),
} | action_objects.REQUESTS
"""Method, rest of the path and body of a valid request for each action."""
NEVER_REFUSED = {("passkeys", "rename")}
"""Only their owners see these objects, and may always do this."""
WITHOUT_DRY_RUN = ("heartbeat", "reset_password", "tickets")


@pytest.fixture
def world(cast: Cast, client_of: Clients, add_node: Callable[..., Node]) -> list[str]:
    """Create objects in the states that matter and return all objects as KIND/ID."""
    alice, charlie = client_of(cast.alice), client_of(cast.charlie)
    busy, locked = add_node("busy"), add_node("locked")
    wanted: dict[str, Any] = {"percent": 60, "allow_pending": True}
    for client, project in ((alice, "default"), (alice, "default"), (charlie, "elsewhere")):
        client.post("/api/v1/allocations", {**wanted, "project": project}, format="json")
    applied(busy)
    applied(locked)
    for name, state in (
        ("cordoned", NodeState.CORDONED),
        ("draining", NodeState.DRAINING),
        ("removed", NodeState.REMOVED),
    ):
        Node.objects.filter(pk=add_node(name).pk).update(state=state)
    alice.post("/api/v1/allocations", {**wanted, "percent": 5}, format="json")
    suspended = Allocation.objects.filter(owner=cast.alice).latest("pk")
    Allocation.objects.filter(pk=suspended.pk).update(state="suspended", suspension="suspended")
    alice.post("/api/v1/allocations", {"percent": 100, "gpu_count": 9, **wanted}, format="json")
    ended = Allocation.objects.filter(owner=cast.alice).latest("pk")
    Allocation.objects.filter(pk=ended.pk).update(state=AllocationState.RELEASED)
    alice.post("/api/v1/allocations", {**wanted, "gpu_count": 8}, format="json")
    Node.objects.filter(pk=locked.pk).update(locked_at=timezone.now(), lock_reason="Twice.")
    Gpu.objects.filter(node__name="cordoned").update(held=True, pool=None)
    projects(cast)
    people(cast)
    RoleBinding.objects.create(user=cast.nina, role="operator", node=busy)
    RoleBinding.objects.create(user=cast.mara, role="operator", pool=Pool.objects.get(name="spare"))
    locked_gpu = Gpu.objects.filter(node=locked).first()
    RoleBinding.objects.create(user=cast.mara, role="operator", gpu=locked_gpu)
    created = action_objects.create_objects(cast)
    return [f"{kind}/{row.pk}" for kind, rows in (*created, *stored_objects()) for row in rows]


def stored_objects() -> list[tuple[str, QuerySet[Any]]]:
    """Return the objects to try of each kind that `action_objects` does not create."""
    return [
        ("allocations", Allocation.objects.all()),
        ("departments", Department.objects.all()),
        ("gpus", Gpu.objects.filter(node__name__in=["locked", "cordoned"])),
        ("groups", Group.objects.all()),
        ("nodes", Node.objects.all()),
        ("pools", Pool.objects.all()),
        ("projects", Project.objects.all()),
        ("users", User.objects.filter(username__in=TRIED_USERS)),
    ]


def projects(cast: Cast) -> None:
    science = Department.objects.create(name="science")
    Department.objects.create(name="empty")
    Project.objects.create(name="idle", department=science)
    reserved = Project.objects.create(name="reserved")
    pool = Pool.objects.create(name="spare", project_ids=[str(reserved.pk)])
    Pool.objects.create(name="unused")
    Reservation.objects.create(
        name="r",
        pool=pool,
        project=reserved,
        gpu_count=1,
        starts_at="2099-01-01T00:00:00Z",
        ends_at="2099-01-02T00:00:00Z",
    )


def people(cast: Cast) -> None:
    """Make admin the only administrator, through a group in a group."""
    User.objects.create(username="gone", is_active=False)
    named = User.objects.filter(username__in=("alice", "ada", "admin"))
    named.update(second_factor_since=timezone.now())
    service = User(username="service")
    service.set_unusable_password()
    service.save()
    top, chiefs, readers = (Group.objects.create(name=n) for n in ("top", "chiefs", "readers"))
    GroupMember.objects.create(group=top, member_group=chiefs)
    GroupMember.objects.create(group=chiefs, user=cast.admin)
    RoleBinding.objects.create(group=top, role="administrator")
    RoleBinding.objects.create(group=readers, role="viewer")
    RoleBinding.objects.filter(user=cast.admin).delete()
    accountant = Group.objects.create(name="accountants")
    RoleBinding.objects.create(group=accountant, role="accountant", project=None)
    CustomRole.objects.create(name="accountant", privileges=["accounts.manage", "pools.view"])
    GroupMember.objects.create(group=accountant, user=cast.bob)


def send(client: Any, place: str, action: str) -> Any:
    """Send a valid request of the action and roll back what it does."""
    kind = place.partition("/")[0]
    method, rest, content = REQUESTS[kind, action]
    query = "" if action in WITHOUT_DRY_RUN else "?dry_run=true"
    with transaction.atomic():
        request = getattr(client, method.lower())
        response = request(f"/api/v1/{place}{rest}{query}", content, format="json")
        transaction.set_rollback(True)
    return response


def details(client: Any, world: list[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for place in world:
        response = client.get(f"/api/v1/{place}")
        if response.status_code == 200:
            yield place, body(response)["actions"]


def clients(cast: Cast, client_of: Clients) -> Iterator[tuple[str, Any]]:
    """Yield a client for every user, and ones with limited tokens of administrator and user."""
    for name in USERS:
        yield name, client_of(getattr(cast, name))
    for user, limits in (
        (cast.admin, {"scopes": ["accounts.manage", "allocations.view", "inventory.view"]}),
        (cast.alice, {"scopes": ["allocations.view", "allocations.use"]}),
        (cast.alice, {"scopes": ["allocations.view", "activity.view", "account.self"]}),
        (cast.admin, {"scopes": ["alarms.manage", "alarms.view", "activity.view"]}),
        (cast.admin, {"networks": ["127.0.0.1/32"]}),
        (cast.alice, {"is_sign_in": True}),
    ):
        client = client_of(None)
        options: dict[str, Any] = limits
        _, text = token_create(user=user, name="limited", **options)
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
        yield f"{user.username} with {limits}", client


def test_every_registered_action_has_a_request() -> None:
    assert get_resolver().url_patterns  # imports all apps
    registered = {(k, a.name) for k in actions.kinds() for a in actions._kinds[k].actions}
    assert registered == set(REQUESTS)


def test_announced_actions_are_those_that_succeed(
    world: list[str], cast: Cast, client_of: Clients
) -> None:
    outcomes: dict[tuple[str, str], set[bool]] = {}
    for name, client in clients(cast, client_of):
        for place, announced in details(client, world):
            for action in announced:
                response = send(client, place, action["name"])
                who = (name, place, action, response.status_code, response.content[:200])
                assert action["allowed"] == (response.status_code < 400), who
                if response.status_code >= 400 and response.status_code != 404:
                    assert action["reason"] == body(response)["detail"], who
                assert action["allowed"] == (action["reason"] is None)
                key = place.partition("/")[0], action["name"]
                outcomes.setdefault(key, set()).add(action["allowed"])
    assert outcomes.keys() == set(REQUESTS)
    one_sided = {key for key, seen in outcomes.items() if seen != {True, False}}
    assert one_sided == NEVER_REFUSED, "the world has too few states"


def test_query_answers_as_the_details_do_and_hides_other_objects(
    world: list[str], cast: Cast, client_of: Clients
) -> None:
    for name, client in clients(cast, client_of):
        shown = dict(details(client, world))
        answer = client.post("/api/v1/actions", {"objects": world}, format="json")
        found = {item["object"]: item["actions"] for item in body(answer)["items"]}
        assert list(found) == world
        assert {place: a for place, a in found.items() if a is not None} == shown, name


def test_query_for_many_objects_makes_as_many_queries_as_for_few(
    world: list[str], cast: Cast, client_of: Clients, add_node: Callable[..., Node]
) -> None:
    for number in range(4):
        add_node(f"more-{number}")
        group = Group.objects.create(name=f"more-{number}")
        RoleBinding.objects.create(group=group, role="user", project=cast_project())
        person = User.objects.create(username=f"more-{number}")
        RoleBinding.objects.create(user=person, role="user", project=cast_project())
    more = [f"nodes/{pk}" for pk in Node.objects.values_list("pk", flat=True)]
    more += [f"groups/{pk}" for pk in Group.objects.values_list("pk", flat=True)]
    more += [
        f"users/{pk}"
        for pk in User.objects.filter(username__startswith="more").values_list("pk", flat=True)
    ]
    for user in (cast.admin, cast.bob):  # bob is refused with the names of projects
        client = client_of(user)
        counts = []
        for objects in (world, world, list({*world, *more})):
            with CaptureQueriesContext(connection) as queries:
                client.post("/api/v1/actions", {"objects": objects}, format="json")
            counts.append(len(queries))
        assert counts[1] == counts[2], (user.username, counts)


def cast_project() -> Project:
    return Project.objects.get(name="default")


@pytest.mark.parametrize(
    "objects", [[], ["nodes"], ["nodes/1"], ["planes/0192f0c1-a2b3-7c4d-8e5f-60718293a4b5"]]
)
def test_malformed_objects_are_refused(cast: Cast, client_of: Clients, objects: list[str]) -> None:
    answer = client_of(cast.admin).post("/api/v1/actions", {"objects": objects}, format="json")
    assert answer.status_code == 400
    too_many = {"objects": ["nodes/0192f0c1-a2b3-7c4d-8e5f-60718293a4b5"] * 501}
    many = client_of(cast.admin).post("/api/v1/actions", too_many, format="json")
    assert many.status_code == 400


def test_lists_have_no_actions_and_the_etag_is_that_of_the_row(
    world: list[str], cast: Cast, client_of: Clients
) -> None:
    admin, olga = client_of(cast.admin), client_of(cast.olga)
    for kind in actions.kinds():
        items = body(admin.get(f"/api/v1/{kind}"))["items"]
        assert items and not any("actions" in item for item in items), kind
    place = next(place for place in world if place.startswith("nodes/"))
    as_admin, as_viewer = (c.get(f"/api/v1/{place}") for c in (admin, client_of(cast.vera)))
    assert as_admin["ETag"] == as_viewer["ETag"]
    assert body(as_admin)["actions"] != body(as_viewer)["actions"]
    tagged = olga.patch(
        f"/api/v1/{place}", {"notes": "x"}, format="json", headers={"If-Match": as_viewer["ETag"]}
    )
    assert tagged.status_code == 200 and "actions" not in body(tagged)


def test_one_time_password_must_be_changed_before_actions_are_shown(
    world: list[str], cast: Cast, client_of: Clients
) -> None:
    User.objects.filter(pk=cast.admin.pk).update(must_change_password=True)
    assert can_somewhere(cast.admin, "accounts.manage")
    refused = client_of(cast.admin).post("/api/v1/actions", {"objects": world[:1]}, format="json")
    assert body(refused)["code"] == "password_change_required"
