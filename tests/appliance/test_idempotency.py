"""Idempotency keys: every POST that creates an object has one effect for each key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings

from appliance.accounts.models import IdempotencyKey, Project, RoleBinding, User
from appliance.accounts.projects import project_update
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, body
from tests.appliance.test_access_matrix import TABLE, Row, create_object, view_of, without_names
from tests.appliance.test_api_contract import api

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
DOCUMENT = {
    without_names(path.removeprefix("/api/v1/")): operations
    for path, operations in api()["paths"].items()
}
ELSEWHERE = {
    "passkeys": "needs the answer of a device: test_passkeys.py",
    "nodes/enrol-ssh": "needs a machine with SSH",
}


def creates(row: Row) -> bool:
    """Return whether an operation makes an object for a user. Without one a key has no owner."""
    if row.method != "POST" or view_of(row).privileges["POST"] == "public":
        return False
    responses = DOCUMENT[without_names(row.path)]["post"]["responses"]
    return "201" in responses or "POST" in view_of(row).created


CREATIONS = [row for row in TABLE if creates(row)]


def counts() -> dict[str, int]:
    return {model.__name__: model._base_manager.count() for model in apps.get_models()}


@pytest.mark.parametrize("row", CREATIONS, ids=str)
def test_creation_honours_the_key(row: Row) -> None:
    assert "POST" in view_of(row).idempotent_methods


@pytest.mark.parametrize("row", [r for r in CREATIONS if r.path not in ELSEWHERE], ids=str)
def test_repeated_creation_returns_the_first_response(
    cast: Cast, client_of: Clients, add_node: AddNode, row: Row
) -> None:
    node, client = add_node(), client_of(cast.admin)
    names = re.findall(r"\{(\w+)\}", row.path)
    values = {name: create_object(name, cast, client_of, node) for name in names}
    content = json.dumps(row.request_body or {})

    def send() -> Any:
        path = "/api/v1/" + row.path.format(**values)
        return client.generic("POST", path, content, "application/json", HTTP_IDEMPOTENCY_KEY="k")

    first = send()
    assert first.status_code in (201, 202), first.content
    before = counts()
    again = send()
    assert (again.status_code, body(again)) == (first.status_code, body(first))
    assert counts() == before


def test_repeated_binding_returns_its_response_after_its_project_was_renamed(
    cast: Cast, client_of: Clients
) -> None:
    content = {"user": "alice", "role": "user", "project": "elsewhere"}

    def bind() -> Any:
        path, ada = "/api/v1/role-bindings", client_of(cast.ada)
        return ada.post(path, content, format="json", HTTP_IDEMPOTENCY_KEY="k")

    first = bind()
    project = Project.objects.get(name="elsewhere")
    project_update(project_id=project.pk, values={"name": "renamed"}, actor=cast.admin)
    again = bind()
    assert (again.status_code, body(again)) == (201, body(first))
    other = Project.objects.exclude(pk=project.pk).first()
    RoleBinding.objects.filter(user=cast.ada, project=project).update(project=other)
    hidden = bind()
    assert (hidden.status_code, body(hidden)["detail"]) == (404, 'Project "elsewhere" not found.')
    RoleBinding.objects.filter(user=cast.ada).delete()
    assert bind().status_code == 403


def test_stored_secret_is_sealed_and_only_for_the_token_of_the_request(
    cast: Cast, client_of: Clients
) -> None:
    def make(client: Any) -> Any:
        content = {"name": "ci"}
        return client.post("/api/v1/tokens", content, format="json", HTTP_IDEMPOTENCY_KEY="k")

    first, other = client_of(cast.alice), client_of(cast.alice)
    text = body(make(first))["token"]
    assert body(make(first))["token"] == text
    assert text not in str(IdempotencyKey.objects.get().answer)
    refused = make(other)
    assert (refused.status_code, body(refused)["code"]) == (422, "idempotency_mismatch")


def test_stored_secret_of_another_secret_key_is_not_found(
    cast: Cast, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, content = client_of(cast.admin), {"username": "dora"}
    path = "/api/v1/users"
    made = client.post(path, content, format="json", HTTP_IDEMPOTENCY_KEY="k")
    assert made.status_code == 201
    monkeypatch.setattr(settings, "SECRET_KEY", "another")
    again = client.post(path, content, format="json", HTTP_IDEMPOTENCY_KEY="k")
    assert (again.status_code, body(again)["code"]) == (422, "idempotency_mismatch")
