"""How many queries each list costs: the same for few rows and for many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from appliance.accounts.models import Department, Project, User
from appliance.fleet.models import SshHostKey
from appliance.inventory.models import Node
from appliance.pools.models import Pool, Quota, Reservation
from tests.appliance.conftest import Cast, body

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
    "tasks": 1,
    "events": 1,
}


def add_some(cast: Cast, client_of: Clients, add_node: Callable[..., Node], name: str) -> None:
    add_node(name=f"node-{name}", gpus=2)
    project = Project.objects.create(name=name, department=Department.objects.create(name=name))
    pool = Pool.objects.create(name=name, project_ids=[str(project.pk)])
    Quota.objects.create(subject_kind="project", subject_id=project.pk, quota_percent=100)
    Reservation.objects.create(
        name=name,
        pool=pool,
        project=project,
        gpu_count=1,
        starts_at="2099-01-01T00:00:00Z",
        ends_at="2099-01-02T00:00:00Z",
    )
    SshHostKey.objects.create(address=name, port=22, key_type="k", sha256="s", confirmed_by="olga")
    client_of(cast.alice).post("/api/v1/allocations", {"percent": 10}, format="json")


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
