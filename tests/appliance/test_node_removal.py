"""Removal of nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from appliance.accounts.models import User
from appliance.fleet.models import NodeCertificate
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]


@pytest.fixture
def node(cast: Cast, add_node: Callable[..., Node]) -> Node:
    node = add_node()
    NodeCertificate.objects.create(
        serial="1",
        node=node,
        purpose="agent",
        not_after=timezone.now() + timedelta(hours=1),
    )
    return node


def test_removal_with_allocations_fails_and_lists_blockers(
    cast: Cast, client_of: Clients, node: Node
) -> None:
    allocation = body(
        client_of(cast.alice).post(
            "/api/v1/allocations", {"percent": 5, "name": "training"}, format="json"
        )
    )
    applied(node)
    response = client_of(cast.olga).delete(f"/api/v1/nodes/{node.pk}")
    assert response.status_code == 409 and body(response)["code"] == "in_use"
    assert body(response)["blockers"] == [
        {"kind": "allocation", "id": allocation["id"], "name": "training", "state": "active"}
    ]


def test_removal_revokes_certificates_and_frees_the_name(
    cast: Cast, client_of: Clients, node: Node, add_node: Callable[..., Node]
) -> None:
    olga = client_of(cast.olga)
    assert olga.delete(f"/api/v1/nodes/{node.pk}").status_code == 204
    assert NodeCertificate.objects.get(node=node).revoked_at is not None
    assert (
        body(olga.get("/api/v1/nodes"))["items"] == []
        and body(olga.get("/api/v1/gpus"))["items"] == []
    )
    assert [n["id"] for n in body(olga.get("/api/v1/nodes?state=removed"))["items"]] == [
        str(node.pk)
    ]
    assert add_node().name == node.name
    assert body(client_of(cast.alice).post("/api/v1/allocations", {"percent": 5}, format="json"))[
        "partitions"
    ], "the new node must take allocations"


def test_stale_version_is_rejected(cast: Cast, client_of: Clients, node: Node) -> None:
    assert (
        client_of(cast.olga).delete(f"/api/v1/nodes/{node.pk}", HTTP_IF_MATCH='"999"').status_code
        == 412
    )
    assert (
        client_of(cast.olga)
        .patch(f"/api/v1/nodes/{node.pk}", {"labels": {}}, format="json", HTTP_IF_MATCH='"999"')
        .status_code
        == 412
    )
