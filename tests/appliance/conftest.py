"""The cast: Alice owns, Bob is in her project, Charlie is a stranger, Olga operates, Vera views."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import settings
from rest_framework.test import APIClient

from appliance.accounts.models import Project, Role, RoleBinding, User
from appliance.accounts.services import token_create
from appliance.allocations.index import index
from appliance.fleet.certificates import load_authority
from appliance.inventory.models import Node, NodeState
from appliance.inventory.services import ReportedGpu, ReportedNode, node_create, node_report
from appliance.pools.services import ensure_default_pool
from appliance.telemetry import latest

GIB = 1 << 30


@dataclass
class Cast:
    alice: User
    bob: User
    charlie: User
    olga: User
    vera: User
    admin: User


@pytest.fixture(autouse=True)
def nothing_is_kept_from_the_test_before() -> None:
    index.forget()


@pytest.fixture
def cast(db: None) -> Cast:
    ensure_default_pool()
    load_authority(settings.DATA_DIR)
    ours, theirs = (
        Project.objects.get_or_create(name="default")[0],
        Project.objects.create(name="elsewhere"),
    )
    people = {
        name: User.objects.create(username=name)
        for name in ("alice", "bob", "charlie", "olga", "vera", "admin")
    }
    for name, role, project in (
        ("alice", Role.USER, ours), ("bob", Role.USER, ours), ("charlie", Role.USER, theirs),
        ("olga", Role.OPERATOR, None), ("vera", Role.VIEWER, None), ("admin", Role.ADMINISTRATOR, None),
    ):  # fmt: skip
        RoleBinding.objects.create(user=people[name], project=project, role=role)
    return Cast(**people)


@pytest.fixture
def client_of() -> Callable[[User | None], APIClient]:
    def make(user: User | None) -> APIClient:
        client = APIClient()
        if user is not None:
            client.credentials(
                HTTP_AUTHORIZATION=f"Bearer {token_create(user=user, name='test')[1]}"
            )
        return client

    return make


@pytest.fixture
def add_node(db: None) -> Callable[..., Node]:
    def make(name: str = "node", gpus: int = 1, memory_bytes: int = 8 * GIB) -> Node:
        ensure_default_pool()
        node = node_create(name=name)
        reported = tuple(
            ReportedGpu(uuid.uuid4(), i, "Test GPU", memory_bytes, "12.0") for i in range(gpus)
        )
        node_report(
            node_id=node.pk,
            report=ReportedNode("1", "1", "test", True, "boot", (("127.0.0.1", 8445),), reported),
        )
        latest.heard_from(node.pk)
        node.refresh_from_db()
        assert node.state == NodeState.READY
        return node

    return make


def applied(node: Node) -> None:
    """The node reports that it has made its newest generation so."""
    from appliance.fleet.reports import record_applied

    node.refresh_from_db()
    record_applied(node.pk, node.generation)


def body(response: Any) -> Any:
    return response.json()
