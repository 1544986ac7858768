"""Allocations end with the account or the role through which their owner uses the project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import Project, RoleBinding, User
from appliance.allocations import lost_access
from appliance.allocations.models import Allocation
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, applied

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(transaction=True)


def states() -> dict[str, str]:
    return dict(Allocation.objects.values_list("owner__username", "state"))


@pytest.fixture
def held(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    """Active allocations of alice, bob and olga in the default project; charlie has a request."""
    node = add_node()
    for user in (cast.alice, cast.bob, cast.olga):
        made = client_of(user).post("/api/v1/allocations", {"percent": 20}, format="json")
        assert made.status_code == 202
    applied(node)
    waiting = {"gpu_count": 16, "project": "elsewhere", "allow_pending": True}
    client_of(cast.charlie).post("/api/v1/allocations", waiting, format="json")
    lost_access.evict_after_changes_of_identities()
    assert states() == dict.fromkeys(("alice", "bob", "olga"), "active") | {"charlie": "queued"}


def test_deactivated_user_loses_all_allocations(held: None, cast: Cast) -> None:
    cast.alice.is_active = False
    cast.alice.save()
    lost_access.evict_after_changes_of_identities()
    assert states()["alice"] == "releasing" and states()["bob"] == "active"
    assert Allocation.objects.get(owner=cast.alice).end_reason == "alice is inactive"


@pytest.mark.parametrize("user", ["alice", "olga"])
def test_user_without_a_role_loses_allocations(held: None, cast: Cast, user: str) -> None:
    RoleBinding.objects.filter(user=getattr(cast, user)).delete()
    lost_access.evict_after_changes_of_identities()
    assert {name for name, state in states().items() if state == "releasing"} == {user}


def test_role_that_may_only_view_loses_allocations(held: None, cast: Cast) -> None:
    binding = RoleBinding.objects.get(user=cast.alice)
    binding.role = "viewer"
    binding.save()
    lost_access.evict_after_changes_of_identities()
    assert states()["alice"] == "releasing"


def test_queued_request_leaves_the_queue_with_the_role(held: None, cast: Cast) -> None:
    RoleBinding.objects.filter(user=cast.charlie).delete()
    lost_access.evict_after_changes_of_identities()
    assert states()["charlie"] == "released"


def test_role_in_another_project_does_not_keep_allocations(held: None, cast: Cast) -> None:
    binding = RoleBinding.objects.get(user=cast.alice)
    binding.project = Project.objects.get(name="elsewhere")
    binding.save()
    lost_access.evict_after_changes_of_identities()
    assert states()["alice"] == "releasing"


def test_password_change_keeps_allocations(held: None, cast: Cast) -> None:
    cast.alice.set_password("another horse battery")
    cast.alice.save()
    lost_access.evict_after_changes_of_identities()
    assert states()["alice"] == "active"
