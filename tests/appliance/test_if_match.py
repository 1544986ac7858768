"""If-Match: a change by another writer is never overwritten by a request for an earlier version."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import F, Model
from django.test.utils import CaptureQueriesContext

from appliance.accounts.models import CustomRole, Department, Group, Project, User
from appliance.alarms.models import Alarm, AlarmDefinition
from appliance.allocations.models import Allocation
from appliance.api.views import ApplianceView
from appliance.configuration.models import StoredSettings
from appliance.db import writer
from appliance.inventory.models import Gpu, Node, Site
from appliance.pools.models import Pool, Quota, Reservation
from tests.appliance.conftest import Cast
from tests.appliance.test_access_matrix import TABLE, Row, create_object, view_of, without_names
from tests.appliance.test_api_contract import api

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
DOCUMENT = api()
MODELS: dict[str, type[Model]] = {
    "alarm-definitions": AlarmDefinition,
    "alarms": Alarm,
    "allocations": Allocation,
    "departments": Department,
    "gpus": Gpu,
    "groups": Group,
    "nodes": Node,
    "pools": Pool,
    "projects": Project,
    "quotas": Quota,
    "reservations": Reservation,
    "roles": CustomRole,
    "settings": StoredSettings,
    "sites": Site,
    "users": User,
}


VERSIONED = {
    without_names(path.removeprefix("/api/v1/"))
    for path, operations in DOCUMENT["paths"].items()
    if "ETag" in operations.get("get", {}).get("responses", {}).get("200", {}).get("headers", {})
}
"""Paths of objects that show a version."""


def compares(row: Row) -> bool:
    """Return whether an operation changes what shows a version, or says that it compares one."""
    changes = row.method in ("PATCH", "DELETE") and without_names(row.path) in VERSIONED
    return changes or row.method in view_of(row).version_methods


CHANGES = [row for row in TABLE if compares(row)]


def send(client: Any, row: Row, path: str, tag: str) -> Any:
    content = "" if row.request_body is None else json.dumps(row.request_body)
    url = f"/api/v1/{path}"
    return client.generic(row.method, url, content, "application/json", HTTP_IF_MATCH=tag)


def change_before_the_next_transaction(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Let another writer change the object after the request was authorized and before it writes.

    Whatever the handler has read until its transaction begins is the earlier version.
    """
    kind, _, pk = place.partition("/")
    rows = MODELS[kind]._base_manager.filter(**({"pk": pk} if pk else {}))
    initial, run = ApplianceView.initial, writer.run_in_transaction

    def change_then_run(work: Callable[[], Any]) -> Any:
        monkeypatch.setattr(writer, "run_in_transaction", run)
        assert rows.update(version=F("version") + 1) == 1
        return run(work)

    def authorize(view: ApplianceView, *args: Any, **kwargs: Any) -> None:
        initial(view, *args, **kwargs)
        monkeypatch.setattr(writer, "run_in_transaction", change_then_run)

    monkeypatch.setattr(ApplianceView, "initial", authorize)


@pytest.mark.parametrize("row", CHANGES, ids=str)
def test_change_between_reading_and_writing_is_refused(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    monkeypatch: pytest.MonkeyPatch,
    row: Row,
) -> None:
    node, client = add_node(), client_of(cast.admin)
    client.patch("/api/v1/settings", {"retention": {"events_days": 60}}, format="json")
    names = re.findall(r"\{(\w+)\}", row.path)
    values = {name: create_object(name, cast, client_of, node) for name in names}
    head, brace, _ = row.path.partition("}")
    place = (head + brace).format(**values)
    tag = client.get(f"/api/v1/{place}")["ETag"]
    change_before_the_next_transaction(monkeypatch, place)
    response = send(client, row, row.path.format(**values), tag)
    assert response.status_code == 412, response.content


@pytest.mark.parametrize("row", [row for row in CHANGES if "{" in row.path], ids=str)
def test_absent_object_has_no_version(cast: Cast, client_of: Clients, row: Row) -> None:
    client = client_of(cast.admin)
    path = re.sub(r"\{\w+\}", str(uuid.uuid4()), row.path)
    statuses = [send(client, row, path, tag).status_code for tag in ("*", '"1"')]
    assert statuses == [412, 404]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer")
def test_compared_row_is_locked(cast: Cast, client_of: Clients) -> None:
    client, site = client_of(cast.admin), Site.objects.create(name="s")
    with CaptureQueriesContext(connection) as queries:
        changed = client.patch(
            f"/api/v1/sites/{site.pk}", {"notes": "n"}, format="json", HTTP_IF_MATCH='"1"'
        )
    assert changed.status_code == 200
    assert any("FOR NO KEY UPDATE" in q["sql"] and "inventory_site" in q["sql"] for q in queries)
