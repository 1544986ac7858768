"""How many queries each list costs: the same for few rows and for many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from appliance.accounts.bindings import groups_by_user
from appliance.accounts.models import Department, Project, RoleBinding, User
from appliance.alarms.models import Alarm, AlarmDefinition
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.fleet.models import SshHostKey
from appliance.inventory.models import Node
from appliance.pools.models import Pool, Quota, Reservation
from appliance.urls import urlpatterns
from tests.appliance.conftest import Cast, body
from tests.load.people import People, add_people

Clients = Callable[[User | None], Any]
# For a user of one project whose token is cached. With several appliances on one database, tokens
# and roles are read for each request.
QUERIES = {
    "nodes": 2,
    "gpus": 2,
    "gpus?pool=default": 3,
    "pools": 5,
    "quotas": 4,
    "reservations": 2,
    "projects": 1,
    "departments": 1,
    "allocations": 2,
    "partitions": 2,
    "sessions": 1,
    "alarms": 1,
    "tasks": 1,
    "events": 1,
}


EVERY_LIST = (
    *(path for path in QUERIES if "?" not in path),
    *("users", "groups", "roles", "role-bindings", "tokens", "audit", "sites"),
)


def add_some(cast: Cast, client_of: Clients, add_node: Callable[..., Node], name: str) -> None:
    add_node(name=f"node-{name}", gpus=2)
    project = Project.objects.create(name=name, department=Department.objects.create(name=name))
    pool = Pool.objects.create(name=name, project_ids=[str(project.pk)])
    Quota.objects.create(subject_kind="project", subject_id=project.pk, quota_percent=100)
    own = {"subject_kind": "project", "subject_id": Project.objects.get(name="default").pk}
    Quota.objects.get_or_create(**own, defaults={"quota_percent": 100})
    Reservation.objects.create(
        name=name,
        pool=pool,
        project=project,
        gpu_count=1,
        starts_at="2099-01-01T00:00:00Z",
        ends_at="2099-01-02T00:00:00Z",
    )
    definition = AlarmDefinition.objects.create(
        name=name, severity="info", object_kind="node", condition="state", states=["locked"]
    )
    Alarm.objects.create(
        definition=definition,
        name=name,
        severity="info",
        object_kind="node",
        object_id=pool.pk,
        object_name=name,
        path="nodes/x",
        message="m",
    )
    SshHostKey.objects.create(address=name, port=22, key_type="k", sha256="s", confirmed_by="olga")
    client_of(cast.alice).post("/api/v1/allocations", {"percent": 10}, format="json")


def list_pages() -> list[str]:
    """Return the routes of all lists that need no object."""
    routes = [str(pattern.pattern) for pattern in urlpatterns if "<" not in str(pattern.pattern)]
    return [route for route in routes if route.startswith("api/v1/")]


def queries_of_pages(client: Any) -> dict[str, int]:
    """Return the queries of each list that the client may read, by its route."""
    found = {}
    for route in list_pages():
        if route.endswith(("watch", "export")):
            continue  # streams
        answer = client.get(f"/{route}")
        if answer.status_code == 200 and "items" in body(answer):
            with CaptureQueriesContext(connection) as captured:
                client.get(f"/{route}")
            found[route.removeprefix("api/v1/")] = len(captured)
    return found


@pytest.mark.skipif(bool(settings.ENVIRONMENT.database), reason="there roles are not cached")
@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_5000_role_bindings_add_no_query_to_any_list(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node]
) -> None:
    add_some(cast, client_of, add_node, "a")
    member = User.objects.create(username="member")
    RoleBinding.objects.create(
        user=member, department=Department.objects.get(name="a"), role="user"
    )
    clients = {user: client_of(user) for user in (cast.alice, cast.admin, member)}
    few = [queries_of_pages(client) for client in clients.values()]
    add_people(People(), [*clients])
    change_log.record(Topic.IDENTITY)
    assert [queries_of_pages(client) for client in clients.values()] == few
    assert RoleBinding.objects.count() > 5000
    assert all(len(groups_by_user({user.pk})[user.pk]) > 3 for user in clients)
    assert few[1].keys() >= {*EVERY_LIST}, "a list is not asked"


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize("path", QUERIES)
def test_a_list_costs_the_same_however_long_it_is(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node], path: str
) -> None:
    alice, found = client_of(cast.alice), []
    add_some(cast, client_of, add_node, "a")
    for more in ("", "bcdefg"):
        for name in more:
            add_some(cast, client_of, add_node, name)
        alice.get(f"/api/v1/{path}")
        with CaptureQueriesContext(connection) as captured:
            answer = alice.get(f"/api/v1/{path}")
        found.append((len(captured), len(body(answer)["items"])))
    (few, rows), (many, more_rows) = found
    wanted = QUERIES[path] + (3 if connection.vendor == "postgresql" else 0)
    assert few == many == wanted, f"{few} queries for {rows} rows, {many} for {more_rows}"
