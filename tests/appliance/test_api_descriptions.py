"""The OpenAPI document says of each operation what a client needs, and the appliance does it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from appliance.accounts.models import User
from appliance.allocations.index import index
from appliance.inventory.models import Node
from deploy.api_descriptions import gaps
from tests.appliance.conftest import Cast, body
from tests.appliance.test_access_matrix import create_object
from tests.appliance.test_api_contract import api

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
DOCUMENT = api()
JSON = "application/json"
METHODS = ("get", "post", "patch", "delete")
OPERATIONS = [
    (method.upper(), path.removeprefix("/api/v1/"), operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]
EXAMPLES = [
    (method, path, operation["requestBody"]["content"]["application/json"]["example"])
    for method, path, operation in OPERATIONS
    if "requestBody" in operation
]
SECRETS = {
    "login",
    "browser-login",
    "enrol",
    "certificate-renewals",
    "device-logins/token",
    "provider-logins",
    "provider-logins/return",
    "second-factor/confirmation",
    "password-resets/completion",
}
"""Operations whose example cannot be true."""


def test_document_has_no_gaps() -> None:
    assert list(gaps(DOCUMENT)) == []


@pytest.mark.parametrize(
    ("place", "gap"),
    [
        (("paths", "/api/v1/pools", "get", "summary"), "summary is missing"),
        (("paths", "/api/v1/pools", "get", "description"), "description is missing"),
        (("paths", "/api/v1/pools", "get", "responses", "400"), "errors 400 are missing"),
        (("paths", "/api/v1/pools/{pool_id}", "get", "responses", "404"), "errors 404"),
        (
            (
                "paths",
                "/api/v1/pools",
                "post",
                "requestBody",
                "content",
                "application/json",
                "example",
            ),
            "request body has no example",
        ),
        (
            (
                "paths",
                "/api/v1/pools",
                "get",
                "responses",
                "200",
                "content",
                "application/json",
                "example",
            ),
            "response 200 has no example",
        ),
        (
            ("paths", "/api/v1/pools/{pool_id}", "get", "responses", "200", "headers", "ETag"),
            "lacks the header ETag",
        ),
        (("components", "schemas", "Pool", "properties", "name", "description"), "no description"),
        (("components", "responses", "Stale"), "names no error code"),
    ],
)
def test_missing_part_is_found(place: tuple[str, ...], gap: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    part = document
    for name in place[:-1]:
        part = part[name]
    del part[place[-1]]
    assert any(gap in line for line in gaps(document))


def test_default_below_the_minimum_is_found() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["components"]["schemas"]["AllocationRequest"]["properties"]["percent"]["default"] = 0
    assert any("outside of its limits" in line for line in gaps(document))


@pytest.mark.parametrize("text", ["Return the queryset.", "Raises ApplianceError.", "See PoolView"])
def test_internal_text_is_found(text: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["paths"]["/api/v1/pools"]["get"]["description"] = text
    assert any("tells about the code" in line for line in gaps(document))


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize(
    ("method", "path", "example"), EXAMPLES, ids=[f"{m} {p}" for m, p, _ in EXAMPLES]
)
def test_example_of_a_request_is_valid(
    cast: Cast, client_of: Clients, add_node: AddNode, method: str, path: str, example: Any
) -> None:
    if path in SECRETS:
        return
    user = cast.alice if "passkey_id" in path else cast.admin  # only their owner sees passkeys
    node, client = add_node(), client_of(user)
    names = re.findall(r"\{(\w+)\}", path)
    values = {name: create_object(name, cast, client_of, node) for name in names}
    target = "/api/v1/" + path.format(**values)
    response = client.generic(method, target, json.dumps(example), "application/json")
    assert response.status_code not in (400, 404, 415, 500), response.content
    if method == "POST" and response.status_code in (201, 202) and "id" in body(response):
        check_location(client, response, path)


def check_location(client: Any, response: Any, path: str) -> None:
    """Check that the response names the path at which its object can be read."""
    if path in ("enrolment-tokens", "groups/{group_id}/members"):
        assert "Location" not in response.headers
        return
    found = client.get(response.headers["Location"])
    assert found.status_code == 200 and body(found)["id"] == body(response)["id"]


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize(
    ("method", "path"),
    [(m, p) for m, p, o in OPERATIONS if m != "GET"],
    ids=[f"{m} {p}" for m, p, _ in OPERATIONS if m != "GET"],
)
def test_if_match_is_compared_where_it_is_documented(
    cast: Cast, client_of: Clients, add_node: AddNode, method: str, path: str
) -> None:
    """The version of another state is refused, and `*` is accepted."""
    operation = DOCUMENT["paths"]["/api/v1/" + path][method.lower()]
    documented = any(p["name"] == "If-Match" for p in operation.get("parameters", []))
    assert documented == ("412" in operation["responses"])
    if not documented:
        return
    node, client = add_node(), client_of(cast.admin)
    names = re.findall(r"\{(\w+)\}", path)
    values = {name: create_object(name, cast, client_of, node) for name in names}
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    statuses = []
    for tag in ('"987654"', '"1", "987654", W/"3"', "*"):
        with transaction.atomic():
            response = client.generic(
                method,
                "/api/v1/" + path.format(**values),
                json.dumps(content["example"]) if content else "",
                "application/json",
                HTTP_IF_MATCH=tag,
            )
            transaction.set_rollback(True)  # the next tag is of an object that exists
        statuses.append(response.status_code)
        index.reset()
    assert statuses[0] == 412 and statuses[2] != 412, statuses


def test_etag_of_a_change_is_that_of_the_changed_object(cast: Cast, client_of: Clients) -> None:
    admin = client_of(cast.admin)
    made = admin.post("/api/v1/sites", {"name": "s"}, format="json")
    changed = admin.patch(made.headers["Location"], {"notes": "n"}, format="json")
    assert changed.headers["ETag"] == '"2"' != made.headers["ETag"]
    assert admin.get(made.headers["Location"]).headers["ETag"] == '"2"'
    both = f"{made.headers['ETag']}, {changed.headers['ETag']}"
    again = admin.patch(made.headers["Location"], {"notes": "m"}, format="json", HTTP_IF_MATCH=both)
    assert again.status_code == 200
