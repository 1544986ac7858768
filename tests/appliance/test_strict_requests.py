"""Request bodies: unknown fields, and amounts and times without a unit or zone, are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, body
from tests.appliance.test_access_matrix import TABLE, Row, create_object

Clients = Callable[[User | None], Any]
REQUIRED: dict[str, dict[str, Any]] = {
    "pools": {"name": "a"},
    "quotas": {"subject_kind": "project", "subject": "default"},
    "reservations": {
        "name": "a",
        "pool": "default",
        "project": "default",
        "gpu_count": 1,
        "starts_at": "2099-01-01T08:00:00Z",
        "ends_at": "2099-01-01T10:00:00Z",
        "allow_pending": True,
    },
    "sites": {"name": "a"},
}
CONVERTED = [
    ("pools", "max_idle_seconds", "60", 60),
    ("pools", "max_idle_seconds", 60.0, 60),
    ("pools", "admit_new_gpus", "true", True),
    ("pools", "admit_new_gpus", 1, True),
    ("quotas", "borrows", "false", False),
    ("quotas", "borrows", 0, False),
    ("reservations", "gpu_count", "2", 2),
    ("reservations", "gpu_count", 2.0, 2),
    ("sites", "notes", 7, "7"),
]
WRITES = [row for row in TABLE if row.method != "GET" and row.path != "browser-login"]


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize("row", WRITES, ids=str)
def test_unknown_field_is_refused_by_every_operation(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node], row: Row
) -> None:
    node, names = add_node(), re.findall(r"\{(\w+)\}", row.path)
    values = {name: create_object(name, cast, client_of, node) for name in names}
    client = client_of(cast.alice if row.path.endswith("tickets") else cast.admin)
    content = json.dumps({**(row.request_body or {}), "unheard_of": 1})
    response = client.generic(
        row.method, "/api/v1/" + row.path.format(**values), content, "application/json"
    )
    assert response.status_code == 400, response.content
    assert {"pointer": "/unheard_of", "code": "unknown_field"}.items() <= body(response)["errors"][
        0
    ].items()


def test_message_names_the_most_similar_field(cast: Cast, client_of: Clients) -> None:
    response = client_of(cast.alice).post("/api/v1/allocations", {"percnt": 10}, format="json")
    assert response.status_code == 400
    assert body(response)["errors"] == [
        {
            "pointer": "/percnt",
            "code": "unknown_field",
            "message": 'Unknown field. Did you mean "percent"?',
        }
    ]


def test_unknown_field_of_a_nested_object_is_refused(cast: Cast, client_of: Clients) -> None:
    request = {"operations": [{"method": "GET", "path": "me", "bodi": {}}]}
    response = client_of(cast.alice).post("/api/v1/bulk", request, format="json")
    assert body(response)["errors"][0]["pointer"] == "/operations/0/bodi"


def test_openapi_document_permits_no_other_fields(db: None) -> None:
    from drf_spectacular.generators import SchemaGenerator

    document: Any = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                name = media["schema"]["$ref"].rpartition("/")[2]
                assert schemas[name]["additionalProperties"] is False, f"{method} {path}"


def test_time_without_zone_is_refused(cast: Cast, client_of: Clients) -> None:
    request = {
        "name": "course",
        "pool": "default",
        "project": "default",
        "gpu_count": 1,
        "starts_at": "2099-01-01T08:00:00",
        "ends_at": "2099-01-01T10:00:00+01:00",
    }
    response = client_of(cast.olga).post("/api/v1/reservations", request, format="json")
    assert [(e["pointer"], e["code"]) for e in body(response)["errors"]] == [
        ("/starts_at", "time_without_zone")
    ]


@pytest.mark.parametrize("name", [0, True, 1.5])
def test_value_of_another_type_is_no_name(cast: Cast, client_of: Clients, name: object) -> None:
    response = client_of(cast.olga).post("/api/v1/sites", {"name": name}, format="json")
    assert response.status_code == 400 and body(response)["errors"][0]["pointer"] == "/name"


@pytest.mark.parametrize("number", ["1.5", True, 1.5])
def test_value_of_another_type_is_no_whole_number(
    cast: Cast, client_of: Clients, number: object
) -> None:
    content = {"name": "a", "max_idle_seconds": number}
    response = client_of(cast.olga).post("/api/v1/pools", content, format="json")
    assert response.status_code == 400
    assert body(response)["errors"][0]["pointer"] == "/max_idle_seconds"


@pytest.mark.parametrize(("kind", "field", "given", "taken"), CONVERTED)
def test_value_that_stands_for_another_type_is_converted(
    cast: Cast, client_of: Clients, kind: str, field: str, given: object, taken: object
) -> None:
    content = REQUIRED[kind] | {field: given}
    made = client_of(cast.admin).post(f"/api/v1/{kind}", content, format="json")
    assert made.status_code == 201, made.content
    assert body(made)[field] == taken


@pytest.mark.parametrize("kind", ["nodes", "gpus"])
def test_number_is_a_note_of_a_machine(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node], kind: str
) -> None:
    node = add_node()
    pk = node.pk if kind == "nodes" else node.gpus.get().pk
    changed = client_of(cast.admin).patch(f"/api/v1/{kind}/{pk}", {"notes": 7}, format="json")
    assert body(changed)["notes"] == "7"


@pytest.mark.parametrize("kind", ["departments", "groups", "projects", "roles", "sites"])
def test_change_without_a_field_changes_nothing(cast: Cast, client_of: Clients, kind: str) -> None:
    admin, content = client_of(cast.admin), {"name": "a"}
    required: dict[str, Any] = {"privileges": []} if kind == "roles" else {}
    made = body(admin.post(f"/api/v1/{kind}", content | required, format="json"))
    changed = admin.patch(f"/api/v1/{kind}/{made['id']}", {}, format="json")
    assert (changed.status_code, body(changed)) == (200, made)


@pytest.mark.parametrize("path", ["actions", "sites", "pools", "bulk"])
def test_longer_idempotency_key_is_refused_in_place_of_cut(
    cast: Cast, client_of: Clients, path: str
) -> None:
    content: dict[str, Any] = {"name": "a"}
    if path == "bulk":
        content = {"operations": [{"method": "GET", "path": "me"}]}
    elif path == "actions":
        content = {"objects": ["nodes/0192f0c1-a2b3-7c4d-8e5f-60718293a4b5"]}
    headers = {"Idempotency-Key": "k" * 201}
    response = client_of(cast.admin).post(
        f"/api/v1/{path}", content, format="json", headers=headers
    )
    assert response.status_code == (200 if path == "actions" else 400), "it ignores the header"
