"""Lists: order, count, fields and filters, the same rules for each resource."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, models
from django.test.utils import CaptureQueriesContext

import appliance.urls  # noqa: F401 - defines all lists
from appliance.accounts.models import Group, GroupMember, Project, RoleBinding, User
from appliance.activity.events import emit
from appliance.api.listing import LISTINGS, Listing
from appliance.audit.records import record_created
from appliance.db.writer import write_transaction
from appliance.inventory.models import Node, Site
from tests.appliance.conftest import Cast, body
from tests.appliance.test_query_counts import add_some

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
PATHS = {
    "sites": ["name"],
    "nodes": ["name", "state"],
    "gpus": ["node", "model", "memory_bytes"],
    "pools": ["name"],
    "quotas": ["subject_kind"],
    "reservations": ["name", "starts_at", "ends_at"],
    "projects": ["name"],
    "departments": ["name"],
    "users": ["username", "email"],
    "groups": ["name"],
    "role-bindings": ["role"],
    "tokens": ["name"],
    "allocations": ["name", "state", "priority"],
    "partitions": ["compute_percent", "memory_bytes"],
    "ssh-host-keys": ["address"],
    "alarms": ["name", "object_name"],
    "alarm-definitions": ["name"],
    "events": [],
    "tasks": [],
    "audit": [],
}


@pytest.fixture
def admin(cast: Cast, client_of: Clients, add_node: AddNode) -> Any:
    for name in "cabed":
        add_some(cast, client_of, add_node, name)
        Site.objects.create(name=name)
        write_transaction(lambda group: record_created(group))(Group.objects.create(name=name))
    write_transaction(lambda: emit("test.done", path="x", message="m"))()
    return client_of(cast.admin)


def pages(client: Any, path: str, query: str) -> list[Any]:
    """Return the items of all pages of two."""
    found: list[Any] = []
    cursor = ""
    while True:
        page = body(client.get(f"/api/v1/{path}?limit=2&{query}{cursor}"))
        found += page["items"]
        if not page["next"]:
            return found
        cursor = f"&cursor={page['next']}"


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize("path", PATHS)
def test_pages_in_each_order_show_each_row_once(admin: Any, path: str) -> None:
    everything = body(admin.get(f"/api/v1/{path}?limit=500&count=true"))
    for order in ("created_at", *PATHS[path]):
        forwards, backwards = (
            pages(admin, path, f"order={order}"),
            pages(admin, path, f"order=-{order}"),
        )
        assert everything["count"] == len(everything["items"]) == len(forwards) > 0, order
        assert forwards == backwards[::-1], order
        assert sorted(r["id"] for r in forwards) == sorted(r["id"] for r in everything["items"])
        values = [row["id" if order == "created_at" else order] for row in forwards]
        assert values == sorted(values), order


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize("path", [p for p in PATHS if p != "audit"])
def test_order_and_fields_cost_no_query_and_count_costs_one(admin: Any, path: str) -> None:
    counts = []
    order = [*PATHS[path], "created_at"][0]
    for query in ("order=-created_at", f"order={order}", "fields=id", "count=true"):
        admin.get(f"/api/v1/{path}?{query}")
        with CaptureQueriesContext(connection) as captured:
            response = admin.get(f"/api/v1/{path}?{query}")
        assert response.status_code == 200, response.content
        counts.append(len(captured))
    assert counts == [counts[0]] * 3 + [counts[0] + 1]


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize("path", [*PATHS, "roles"])
def test_fields_are_those_of_the_whole_item(admin: Any, path: str) -> None:
    whole = body(admin.get(f"/api/v1/{path}"))["items"]
    for name in whole[0]:
        part = body(admin.get(f"/api/v1/{path}?fields={name},id"))["items"]
        assert [sorted(row) for row in part] == [sorted({name, "id"})] * len(whole)
        assert [row["id"] for row in part] == [row["id"] for row in whole]


def test_fields_have_the_values_of_the_whole_item(admin: Any) -> None:
    (whole, *_) = body(admin.get("/api/v1/projects"))["items"]
    (part, *_) = body(admin.get("/api/v1/projects?fields=department,name"))["items"]
    assert part == {"department": whole["department"], "name": whole["name"]}
    assert list(part) == ["department", "name"]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("order=id", "order: invalid value id; expected created_at, name"),
        ("order=--name", "order: invalid value"),
        ("fields=nme", 'Did you mean "name"?'),
        ("fields=", "fields: unknown field"),
        ("fields=name,zzzzzz", "Fields: id, name"),
        ("count=yes", "count: Invalid value yes"),
        ("ordering=name", "Unknown parameter ordering"),
    ],
)
def test_wrong_parameters_are_refused(
    cast: Cast, client_of: Clients, query: str, detail: str
) -> None:
    response = client_of(cast.admin).get(f"/api/v1/sites?{query}")
    assert response.status_code == 400 and detail in body(response)["detail"]


def encoded(*content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


ID = "0192f0c1-a2b3-7c4d-8e5f-60718293a4b5"


@pytest.mark.parametrize(
    "cursor",
    [
        ID,
        "x",
        encoded("name"),
        encoded("name", "a", "x"),
        encoded("name", "a\0", ID),
        encoded("name", 1, ID),
        encoded("name", None, ID),
        encoded("notes", "a", ID),
        encoded("name", "a", 7),
        encoded({"name": "a"}),
        "é",
    ],
)
def test_cursor_that_no_page_gave_is_refused(cast: Cast, client_of: Clients, cursor: str) -> None:
    response = client_of(cast.admin).get("/api/v1/sites", {"order": "name", "cursor": cursor})
    assert response.status_code == 400 and "cursor" in body(response)["detail"]


@pytest.mark.parametrize("value", [1 << 70, -(1 << 70), True, "1", 1.5])
def test_cursor_with_another_number_is_refused(cast: Cast, client_of: Clients, value: Any) -> None:
    query = {"order": "priority", "cursor": encoded("priority", value, ID)}
    assert client_of(cast.admin).get("/api/v1/allocations", query).status_code == 400


def test_cursor_of_another_order_is_refused(admin: Any) -> None:
    cursor = body(admin.get("/api/v1/allocations?limit=1&order=state"))["next"]
    response = admin.get(f"/api/v1/allocations?order=name&cursor={cursor}")
    assert response.status_code == 400


@pytest.mark.parametrize(
    ("path", "query", "names"),
    [
        ("allocations", "owner=alice&project=default", 5),
        ("allocations", "owner=bob", 0),
        ("allocations", "pool=default&state=preparing", 5),
        ("gpus", "index=1", 5),
        ("projects", "department=a", 1),
        ("reservations", "pool=a&project=a", 1),
        ("reservations", "ends_since=2099-01-02T00:00:01Z", 0),
        ("pools", "name=b", 1),
        ("roles", "name=viewer", 1),
        ("roles", "name=absent", 0),
        ("users", "email=none@example.org", 0),
        ("ssh-host-keys", "port=22&address=c", 1),
        ("tokens", "expires_until=2020-01-01T00:00:00Z", 0),
        ("audit", "sequence=999999999", 0),
        ("tasks", "ended_since=2020-01-01T00:00:00Z", 0),
    ],
)
def test_filters_select_rows_and_count_counts_them(
    admin: Any, path: str, query: str, names: int
) -> None:
    found = body(admin.get(f"/api/v1/{path}?{query}&count=true"))
    assert len(found["items"]) == found["count"] == names


UNFILTERED = {
    ("GroupMember", "group"): "the path names the group",
    ("TaskLine", "task"): "the path names the task",
    ("ApiToken", "secret_sha256"): "a secret",
    ("Partition", "gpu"): "gpu_id",
    ("Passkey", "user"): "the list is that of the caller",
    ("Passkey", "credential_id"): "devices know it, people do not",
    ("AlarmEntry", "alarm"): "the list is that of one alarm",
    ("AlarmDefinition", "changed_by"): "the index is for the end of the user",
    ("Allocation", "resize_requested_at"): "the index is for the scheduler",
    ("Gpu", "duplicate_of"): "the index is for the end of the claim; the alarm lists them",
    ("User", "name_key"): "the index refuses names that look the same; `username` is the filter",
}
"""Indexed columns without a filter, with the reason."""
NESTED = {"BlockerSerializer"}
"""Lists of an object's dependents: few rows, of which some fields are hidden from the viewer."""


def indexed_columns(model: type[models.Model]) -> set[str]:
    """Return the first column of each index, constraint and foreign key."""
    meta = model._meta
    columns = {index.fields[0].lstrip("-") for index in meta.indexes if index.fields}
    for constraint in meta.constraints:
        if isinstance(constraint, models.UniqueConstraint):
            columns |= set(constraint.fields[:1])
    for column in meta.concrete_fields:
        if column.unique or getattr(column, "db_index", False):
            columns.add(column.name)
    return columns - {meta.pk.name}


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda one: one.serializer.__name__)
def test_each_indexed_column_has_a_filter(listing: Listing) -> None:
    model = getattr(getattr(listing.serializer, "Meta", None), "model", None)
    if model is None or listing.serializer.__name__ in NESTED:
        return
    lookups = [lookup for lookup, _ in listing.filters.values()]
    for column in indexed_columns(model):
        names = (column, f"{column}_id", f"{column}__")
        found = any(lookup == column or lookup.startswith(names[1:]) for lookup in lookups)
        known = (model.__name__, column) in UNFILTERED
        assert found or known, f"{model.__name__}.{column} has an index and no filter"


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda one: one.serializer.__name__)
def test_no_order_is_by_a_column_with_nulls(listing: Listing) -> None:
    model: type[models.Model] | None = getattr(
        getattr(listing.serializer, "Meta", None), "model", None
    )
    for order in listing.order.values() if model is not None else ():
        *_, last = order.column.split("__")
        owner: Any = Node if order.column.startswith("node__") else model
        assert last == "pk" or not owner._meta.get_field(last).null


def test_database_refuses_a_second_equal_binding(cast: Cast) -> None:
    from django.db import IntegrityError, transaction

    group, project = Group.objects.create(name="g"), Project.objects.create(name="p")
    for place in ({}, {"project": project}):
        for holder in ({"user": cast.nina}, {"group": group}):
            RoleBinding.objects.create(role="viewer", **holder, **place)
            RoleBinding.objects.create(role="user", **holder, **place)
            with pytest.raises(IntegrityError), transaction.atomic():
                RoleBinding.objects.create(role="viewer", **holder, **place)
    for member in ({"user": cast.nina}, {"member_group": Group.objects.create(name="h")}):
        GroupMember.objects.create(group=group, **member)
        with pytest.raises(IntegrityError), transaction.atomic():
            GroupMember.objects.create(group=group, **member)
