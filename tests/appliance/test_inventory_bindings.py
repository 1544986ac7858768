"""Role bindings in the inventory: they hold at their object and below, and in no project."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from appliance.accounts.models import CustomRole, Group, GroupMember, Project, RoleBinding, User
from appliance.activity.models import Task
from appliance.audit.models import AuditRecord
from appliance.fleet.enrolment import node_remove
from appliance.inventory.models import Gpu, Node, Site
from appliance.pools.models import Pool
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
SECRET = "secret-name"


@pytest.fixture
def nodes(cast: Cast, client_of: Clients, add_node: AddNode) -> dict[str, Node]:
    """Create two nodes of a site and one without, with an allocation of alice on the first."""
    site = Site.objects.create(name="north")
    first = add_node("first", gpus=2)
    wanted = {"percent": 30, "name": SECRET}
    client_of(cast.alice).post("/api/v1/allocations", wanted, format="json")
    applied(first)
    found = {"first": first, "second": add_node("second"), "apart": add_node("apart")}
    Node.objects.filter(name__in=["first", "second"]).update(site=site)
    return found


def bind(client: Any, **content: str) -> Any:
    return client.post("/api/v1/role-bindings", content, format="json")


def names(client: Any, path: str, key: str = "name") -> list[str]:
    return sorted(str(item[key]) for item in body(client.get(f"/api/v1/{path}"))["items"])


def test_bindings_hold_at_their_object_and_below(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    nina, admin = client_of(cast.nina), client_of(cast.admin)
    expected = {
        ("site", "north"): (["first", "second"], ["first", "first", "second"]),
        ("node", "first"): (["first"], ["first", "first"]),
        ("gpu", "first/1"): ([], ["first"]),
        ("pool", "default"): ([], ["apart", "first", "first", "second"]),
    }
    for (kind, name), (shown_nodes, shown_gpus) in expected.items():
        binding = body(bind(admin, user="nina", role="operator", **{kind: name}))
        assert binding[kind] == name, binding
        assert names(nina, "nodes") == shown_nodes, kind
        assert names(nina, "gpus", "node") == shown_gpus, kind
        assert names(nina, "sites") == (["north"] if kind == "site" else [])
        assert names(nina, "pools") == (["default"] if kind == "pool" else [])
        assert names(admin, f"role-bindings?{kind}={name}", "user") == ["nina"]
        assert names(admin, f"role-bindings?{kind}=absent", "user") == []
        assert admin.delete(f"/api/v1/role-bindings/{binding['id']}").status_code == 204
        assert nina.get("/api/v1/nodes").status_code == 403


def test_role_in_the_inventory_shows_the_appliance_and_the_capacity_of_its_gpus(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    nina = client_of(cast.nina)
    for path in ("appliance", "capacity"):
        assert nina.get(f"/api/v1/{path}").status_code == 403
    bind(client_of(cast.admin), user="nina", role="viewer", node="second")
    assert nina.get("/api/v1/appliance").status_code == 200
    mine, all_of_it = (
        body(client_of(user).get("/api/v1/capacity?by=node"))["items"]
        for user in (cast.nina, cast.admin)
    )
    assert len(mine) == 1 and len(all_of_it) == 3


def test_operator_of_a_site_drains_its_nodes_and_no_others(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    bind(client_of(cast.admin), user="nina", role="operator", site="north")
    RoleBinding.objects.create(user=cast.nina, role="viewer")
    nina = client_of(cast.nina)
    drained = nina.post(f"/api/v1/nodes/{nodes['first'].pk}/enter-maintenance", {}, format="json")
    assert drained.status_code == 202
    assert nina.get(f"/api/v1/tasks/{body(drained)['id']}").status_code == 200
    assert Task.objects.filter(kind="allocation.evict").exists()
    apart = f"/api/v1/nodes/{nodes['apart'].pk}"
    for path in ("/cordon", "/enter-maintenance", "/uncordon", "/exit-maintenance"):
        assert nina.post(apart + path).status_code == 403, path
    assert nina.patch(apart, {"notes": "x"}, format="json").status_code == 403
    assert nina.get(apart + "/blockers").status_code == 403


def test_binding_shows_that_an_allocation_exists_but_no_details(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    bind(client_of(cast.admin), user="nina", role="administrator", node="first")
    nina, allocation = client_of(cast.nina), body(client_of(cast.alice).get("/api/v1/allocations"))
    found = allocation["items"][0]["id"]
    blocker = body(nina.get(f"/api/v1/nodes/{nodes['first'].pk}/blockers"))["items"][0]
    assert (blocker["id"], blocker["owner"], blocker["name"]) == (found, "alice", "")
    assert names(nina, "partitions", "allocation_id") == [found]
    for path in ("allocations", f"allocations/{found}", "sessions", "events"):
        assert nina.get(f"/api/v1/{path}").status_code == 403, path
    key = {"client_public_key": "A" * 43 + "="}
    ticket = nina.post(f"/api/v1/allocations/{found}/tickets", key, format="json")
    assert ticket.status_code == 403
    olga = body(client_of(cast.olga).get(f"/api/v1/nodes/{nodes['first'].pk}/blockers"))
    assert olga["items"][0]["name"] == SECRET


def test_what_affects_other_places_needs_the_whole_appliance(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    admin, nina, pool = client_of(cast.admin), client_of(cast.nina), Pool.objects.get()
    for place in ({"site": "north"}, {"pool": "default"}):
        assert bind(admin, user="nina", role="operator", **place).status_code == 201
    gpu = Gpu.objects.filter(node=nodes["first"]).first()
    assert gpu is not None
    places = {
        f"nodes/{nodes['first'].pk}": ({"labels": {"a": "b"}}, {"site": ""}),
        f"gpus/{gpu.pk}": ({"notes": "x"}, {"pool": ""}),
        f"pools/{pool.pk}": ({"max_idle_seconds": 60}, {"fallbacks": []}),
        f"sites/{Site.objects.get().pk}": ({"notes": "x"}, {"name": "south"}),
    }
    for path, (permitted, refused) in places.items():
        assert nina.patch(f"/api/v1/{path}", refused, format="json").status_code == 403, path
        assert nina.patch(f"/api/v1/{path}", permitted, format="json").status_code == 200, path
        assert nina.delete(f"/api/v1/{path}").status_code in (403, 405), path
    for setting in ({"projects": ["default"]}, {"required_isolation": "any"}):
        assert nina.patch(f"/api/v1/pools/{pool.pk}", setting, format="json").status_code == 403


def test_role_in_the_inventory_gives_nothing_in_projects_and_no_accounts(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    bind(client_of(cast.admin), user="nina", role="administrator", site="north")
    nina = client_of(cast.nina)
    of_alarms = {"alarms.acknowledge", "alarms.view"}
    privileges = of_alarms | {"inventory.manage", "inventory.view", "pools.manage", "pools.view"}
    assert set(body(nina.get("/api/v1/me"))["privileges"]) == privileges
    assert bind(nina, user="mara", role="viewer", site="north").status_code == 403
    assert nina.get("/api/v1/users").status_code == 403


def test_granting_in_the_inventory_needs_the_privileges_on_the_whole_appliance(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    held = ["accounts.manage", "members.manage", "inventory.view"]
    CustomRole.objects.create(name="accountant", privileges=held)
    RoleBinding.objects.create(user=cast.mara, role="accountant")
    mara, ada = client_of(cast.mara), client_of(cast.ada)
    assert bind(mara, user="nina", role="operator", site="north").status_code == 403
    assert bind(mara, user="nina", role="accountant", site="north").status_code == 201
    assert bind(ada, user="nina", role="viewer", node="first").status_code == 403
    RoleBinding.objects.create(user=cast.nina, role="operator", node=nodes["apart"])
    reset = mara.post(f"/api/v1/users/{cast.nina.pk}/reset-password")
    assert reset.status_code == 403, "an account with more privileges was taken over"


def test_administrator_of_a_site_is_not_the_last_administrator(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    for user in (cast.admin, cast.nina):
        user.set_password("correct horse battery")
        user.save()
    bind(client_of(cast.admin), user="nina", role="administrator", site="north")
    own = RoleBinding.objects.get(user=cast.admin)
    ended = client_of(cast.admin).delete(f"/api/v1/role-bindings/{own.pk}")
    assert (ended.status_code, body(ended)["code"]) == (409, "conflict")


def test_access_names_the_binding_and_follows_a_node_to_its_site(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    group = Group.objects.create(name="staff")
    GroupMember.objects.create(group=group, user=cast.nina)
    bind(client_of(cast.admin), group="staff", role="viewer", site="north")
    admin = client_of(cast.admin)
    gpu = Gpu.objects.filter(node=nodes["second"]).get()
    for place in (f"nodes/{nodes['first'].pk}", f"gpus/{gpu.pk}", f"sites/{group_site()}"):
        answer = body(admin.get("/api/v1/access", {"user": "nina", "object": place}))
        held = [p["name"] for p in answer["privileges"]]
        assert held == ["alarms.view", "inventory.view", "pools.view"], place
        assert answer["privileges"][0]["bindings"][0]["site"] == "north"
    for place in ("", f"nodes/{nodes['apart'].pk}", f"pools/{Pool.objects.get().pk}"):
        answer = body(admin.get("/api/v1/access", {"user": "nina", "object": place}))
        assert answer["privileges"] == [], place
    nina = client_of(cast.nina)
    assert len(names(nina, "nodes")) == 2
    moved = {"site": "north"}
    admin.patch(f"/api/v1/nodes/{nodes['apart'].pk}", moved, format="json")
    assert len(names(nina, "nodes")) == 3


def group_site() -> uuid.UUID:
    return Site.objects.get().pk


def test_scopes_of_a_token_limit_privileges_in_the_inventory(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    bind(client_of(cast.admin), user="nina", role="operator", node="first")
    made = client_of(cast.nina).post(
        "/api/v1/tokens", {"name": "reader", "scopes": ["inventory.view"]}, format="json"
    )
    reader = client_of(None)
    reader.credentials(HTTP_AUTHORIZATION=f"Bearer {body(made)['token']}")
    path = f"/api/v1/nodes/{nodes['first'].pk}"
    assert reader.get(path).status_code == 200
    assert reader.post(path + "/cordon").status_code == 403
    assert client_of(cast.nina).post(path + "/cordon").status_code == 200


@pytest.mark.parametrize(
    "place",
    [
        {"site": "absent"},
        {"node": "absent"},
        {"pool": "absent"},
        {"gpu": "first/9"},
        {"gpu": "first"},
        {"gpu": "first/²"},
    ],
)
def test_unknown_place_is_not_found(
    cast: Cast, client_of: Clients, nodes: dict[str, Node], place: dict[str, str]
) -> None:
    assert bind(client_of(cast.admin), user="nina", role="viewer", **place).status_code == 404


def test_binding_has_one_place_at_most_and_exists_once(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    admin = client_of(cast.admin)
    two = bind(admin, user="nina", role="viewer", site="north", project="default")
    assert two.status_code == 400
    with pytest.raises(IntegrityError), transaction.atomic():
        RoleBinding.objects.create(
            user=cast.nina, role="viewer", node=nodes["first"], project=Project.objects.first()
        )
    first, again = (bind(admin, user="nina", role="viewer", node="first") for _ in range(2))
    assert body(first)["id"] == body(again)["id"]


def test_bindings_end_with_their_object(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    admin, nina = client_of(cast.admin), client_of(cast.nina)
    Pool.objects.create(name="spare")
    for place in ({"node": "apart"}, {"gpu": "apart/0"}, {"pool": "spare"}):
        bind(admin, user="nina", role="viewer", **place)
    assert names(nina, "nodes") == ["apart"]
    node_remove(node_id=nodes["apart"].pk, actor="admin")
    assert AuditRecord.objects.filter(action="role_binding.deleted").count() == 2
    admin.delete(f"/api/v1/pools/{Pool.objects.get(name='spare').pk}")
    assert not RoleBinding.objects.filter(user=cast.nina).exists()
    assert nina.get("/api/v1/nodes").status_code == 403


def test_pages_of_a_bound_user_take_as_many_queries_as_those_of_an_administrator(
    cast: Cast, client_of: Clients, nodes: dict[str, Node]
) -> None:
    bind(client_of(cast.admin), user="nina", role="viewer", site="north")
    counts = []
    for user in (cast.admin, cast.nina):
        client = client_of(user)
        client.get("/api/v1/me")
        for path in ("nodes", "gpus", "sites"):
            with CaptureQueriesContext(connection) as queries:
                assert client.get(f"/api/v1/{path}").status_code == 200
            counts.append(len(queries))
    assert counts[3:] <= counts[:3], counts
