"""Users, groups, roles and role bindings: who may do what, and who may change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import ApiToken, Department, Project, RoleBinding, User
from appliance.accounts.services import login
from appliance.allocations.models import Allocation
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db


def post(client: Any, path: str, **content: object) -> Any:
    return client.post(f"/api/v1/{path}", content, format="json")


def create(client: Any, path: str, **content: object) -> dict[str, Any]:
    response = post(client, path, **content)
    assert response.status_code == 201, response.content
    return dict(body(response))


def status_of_allocation(client: Any, **content: object) -> int:
    request = {"percent": 5, "allow_pending": True, **content}
    return int(post(client, "allocations", **request).status_code)


def test_new_user_signs_in_with_the_one_time_password(cast: Cast, client_of: Clients) -> None:
    made = create(client_of(cast.admin), "users", username="Åsa Öberg", email="asa@example.org")
    user = login(username="Åsa Öberg", password=made["one_time_password"])
    assert user.must_change_password and user.password_expires_at is not None
    assert post(client_of(cast.admin), "users", username="Åsa Öberg").status_code == 409
    assert "one_time_password" not in str(body(client_of(cast.admin).get("/api/v1/users")))


def test_reset_password_ends_all_tokens_of_the_user(cast: Cast, client_of: Clients) -> None:
    alice = client_of(cast.alice)
    assert alice.get("/api/v1/me").status_code == 200
    reset = post(client_of(cast.admin), f"users/{cast.alice.pk}/reset-password")
    assert alice.get("/api/v1/me").status_code == 401
    assert not ApiToken.objects.filter(user=cast.alice).exists()
    assert login(username="alice", password=body(reset)["one_time_password"]).must_change_password


def test_deactivation_ends_tokens_also_after_the_return(cast: Cast, client_of: Clients) -> None:
    alice, admin = client_of(cast.alice), client_of(cast.admin)
    assert alice.get("/api/v1/me").status_code == 200
    path = f"/api/v1/users/{cast.alice.pk}"
    assert admin.patch(path, {"is_active": False}, format="json").status_code == 200
    assert alice.get("/api/v1/me").status_code == 401
    assert not ApiToken.objects.filter(user=cast.alice).exists()
    assert admin.patch(path, {"is_active": True}, format="json").status_code == 200
    assert alice.get("/api/v1/me").status_code == 401
    assert client_of(cast.alice).get("/api/v1/me").status_code == 200


def test_return_ends_tokens_that_other_code_left(cast: Cast, client_of: Clients) -> None:
    alice, admin = client_of(cast.alice), client_of(cast.admin)
    User.objects.filter(pk=cast.alice.pk).update(is_active=False)
    path = f"/api/v1/users/{cast.alice.pk}"
    assert admin.patch(path, {"is_active": True}, format="json").status_code == 200
    assert alice.get("/api/v1/me").status_code == 401


def test_change_of_an_active_user_keeps_the_tokens(cast: Cast, client_of: Clients) -> None:
    alice, admin = client_of(cast.alice), client_of(cast.admin)
    change = {"is_active": True, "email": "alice@example.org"}
    changed = admin.patch(f"/api/v1/users/{cast.alice.pk}", change, format="json")
    assert changed.status_code == 200 and alice.get("/api/v1/me").status_code == 200


def test_user_with_allocations_is_not_deleted_until_they_end(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice, admin = add_node(), client_of(cast.alice), client_of(cast.admin)
    held = body(post(alice, "allocations", percent=5))
    refused = admin.delete(f"/api/v1/users/{cast.alice.pk}")
    assert refused.status_code == 409
    assert [b["id"] for b in body(refused)["blockers"]] == [held["id"]]
    applied(node)
    alice.delete(f"/api/v1/allocations/{held['id']}")
    applied(node)
    assert Allocation.objects.get().state == "released"
    assert admin.delete(f"/api/v1/users/{cast.alice.pk}").status_code == 204
    assert alice.get("/api/v1/me").status_code == 401 and not Allocation.objects.exists()


@pytest.mark.parametrize("way", ["binding", "inactive", "delete", "group", "role"])
def test_last_administrator_stays(cast: Cast, client_of: Clients, way: str) -> None:
    admin = client_of(cast.admin)
    binding = RoleBinding.objects.get(user=cast.admin)
    if way == "binding":
        refused = admin.delete(f"/api/v1/role-bindings/{binding.pk}")
    elif way == "inactive":
        refused = admin.patch(f"/api/v1/users/{cast.admin.pk}", {"is_active": False}, format="json")
    elif way == "delete":
        refused = admin.delete(f"/api/v1/users/{cast.admin.pk}")
    else:
        group = create(admin, "groups", name="administrators")
        member = create(admin, f"groups/{group['id']}/members", user="admin")
        role = create(
            admin, "roles", name="all", privileges=body(admin.get("/api/v1/me"))["privileges"]
        )
        bound = "all" if way == "role" else "administrator"
        create(admin, "role-bindings", group="administrators", role=bound)
        assert admin.delete(f"/api/v1/role-bindings/{binding.pk}").status_code == 204
        refused = (
            admin.patch(f"/api/v1/roles/{role['id']}", {"privileges": []}, format="json")
            if way == "role"
            else admin.delete(f"/api/v1/groups/{group['id']}/members/{member['id']}")
        )
    assert refused.status_code == 409, refused.content
    assert admin.get("/api/v1/users").status_code == 200


def test_administrator_ends_the_own_role_when_another_one_is_left(
    cast: Cast, client_of: Clients
) -> None:
    admin = client_of(cast.admin)
    create(admin, "role-bindings", user="olga", role="administrator")
    binding = RoleBinding.objects.get(user=cast.admin)
    assert admin.delete(f"/api/v1/role-bindings/{binding.pk}").status_code == 204
    assert admin.get("/api/v1/users").status_code == 403
    assert client_of(cast.olga).get("/api/v1/users").status_code == 200


def test_project_administrator_manages_members_of_that_project_only(
    cast: Cast, client_of: Clients
) -> None:
    ada, bob = client_of(cast.ada), client_of(cast.bob)
    assert status_of_allocation(bob, project="elsewhere") == 404
    binding = create(ada, "role-bindings", user="bob", role="user", project="elsewhere")
    assert status_of_allocation(bob, project="elsewhere") == 202
    for place, status in (({"project": "default"}, 404), ({}, 403)):
        assert post(ada, "role-bindings", user="bob", role="viewer", **place).status_code == status
    assert {b["project"] for b in body(ada.get("/api/v1/role-bindings"))["items"]} == {"elsewhere"}
    assert ada.delete(f"/api/v1/role-bindings/{binding['id']}").status_code == 204
    assert status_of_allocation(bob, project="elsewhere") == 404
    own = RoleBinding.objects.get(user=cast.alice)
    assert ada.delete(f"/api/v1/role-bindings/{own.pk}").status_code == 404


def test_no_user_grants_more_than_they_have(cast: Cast, client_of: Clients) -> None:
    admin = client_of(cast.admin)
    delegate = ["accounts.manage", "members.manage", "inventory.view"]
    create(admin, "roles", name="delegate", privileges=delegate)
    create(admin, "role-bindings", user="olga", role="delegate")
    RoleBinding.objects.get(user=cast.olga, role="operator").delete()
    olga = client_of(cast.olga)
    for request in (
        post(olga, "role-bindings", user="olga", role="administrator"),
        post(olga, "role-bindings", user="olga", role="operator", project="default"),
        post(olga, "roles", name="more", privileges=["fleet.enrol"]),
        post(olga, f"users/{cast.admin.pk}/reset-password"),
        olga.delete(f"/api/v1/users/{cast.admin.pk}"),
        olga.patch(f"/api/v1/users/{cast.admin.pk}", {"is_active": False}, format="json"),
    ):
        assert request.status_code == 403, request.content
    group = create(admin, "groups", name="administrators")
    create(admin, "role-bindings", group="administrators", role="administrator")
    assert post(olga, f"groups/{group['id']}/members", user="olga").status_code == 403
    create(olga, "users", username="newcomer")
    create(olga, "role-bindings", user="newcomer", role="delegate")


def test_roles_of_groups_hold_for_members_of_their_groups(cast: Cast, client_of: Clients) -> None:
    admin, charlie = client_of(cast.admin), client_of(cast.charlie)
    outer, inner = (create(admin, "groups", name=name) for name in ("staff", "students"))
    create(admin, f"groups/{outer['id']}/members", group="students")
    member = create(admin, f"groups/{inner['id']}/members", user="charlie")
    create(admin, "role-bindings", group="staff", role="user", project="default")
    assert status_of_allocation(charlie, project="default") == 202
    assert {"user": None, "group": "staff", "project": "default"}.items() <= body(
        charlie.get("/api/v1/me")
    )["roles"][-1].items()
    path = f"/api/v1/groups/{inner['id']}/members/{member['id']}"
    assert admin.delete(path).status_code == 204
    assert status_of_allocation(charlie, project="default") == 404


def test_groups_form_no_circle(cast: Cast, client_of: Clients) -> None:
    admin = client_of(cast.admin)
    ids = {name: create(admin, "groups", name=name)["id"] for name in ("a", "b", "c")}
    create(admin, f"groups/{ids['a']}/members", group="b")
    create(admin, f"groups/{ids['b']}/members", group="c")
    for container, member in (("c", "a"), ("b", "a"), ("a", "a")):
        refused = post(admin, f"groups/{ids[container]}/members", group=member)
        assert refused.status_code == 409, (container, member)


def test_role_in_a_department_holds_in_its_projects_only(cast: Cast, client_of: Clients) -> None:
    admin, charlie = client_of(cast.admin), client_of(cast.charlie)
    create(admin, "departments", name="science")
    physics = create(admin, "projects", name="physics", department="science")
    create(admin, "role-bindings", user="charlie", role="operator", department="science")
    assert status_of_allocation(charlie, project="physics") == 202
    assert status_of_allocation(charlie, project="default") == 404
    assert post(charlie, "pools", name="mine").status_code == 403
    path = f"/api/v1/projects/{physics['id']}"
    assert admin.patch(path, {"department": ""}, format="json").status_code == 200
    assert status_of_allocation(charlie, project="physics") == 404


def test_added_role_grants_its_privileges_at_once(cast: Cast, client_of: Clients) -> None:
    admin, alice = client_of(cast.admin), client_of(cast.alice)
    role = create(admin, "roles", name="librarian", privileges=["inventory.manage"])
    create(admin, "role-bindings", user="alice", role="librarian")
    assert post(alice, "sites", name="oslo").status_code == 201
    path = f"/api/v1/roles/{role['id']}"
    assert admin.delete(path).status_code == 409
    assert admin.patch(path, {"privileges": []}, format="json").status_code == 200
    assert post(alice, "sites", name="bergen").status_code == 403
    assert post(admin, "roles", name="user", privileges=[]).status_code == 409
    unknown = post(admin, "roles", name="x", privileges=["inventory.viewing"])
    assert unknown.status_code == 400


def test_equal_binding_is_made_once(cast: Cast, client_of: Clients) -> None:
    admin = client_of(cast.admin)
    request = {"user": "bob", "role": "viewer"}
    assert create(admin, "role-bindings", **request) == create(admin, "role-bindings", **request)


@pytest.mark.parametrize(
    "request_",
    [
        {"role": "viewer"},
        {"role": "viewer", "user": "bob", "group": "g"},
        {"role": "viewer", "user": "bob", "project": "default", "department": "d"},
        {"role": "reader", "user": "bob"},
        {"role": "viewer", "user": "stranger"},
    ],
)
def test_invalid_binding_is_refused(
    cast: Cast, client_of: Clients, request_: dict[str, str]
) -> None:
    response = post(client_of(cast.admin), "role-bindings", **request_)
    assert response.status_code in (400, 404)


def test_project_is_renamed_and_deleted(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    add_node()
    admin, charlie = client_of(cast.admin), client_of(cast.charlie)
    project = Project.objects.get(name="elsewhere")
    path = f"/api/v1/projects/{project.pk}"
    assert admin.patch(path, {"name": "default"}, format="json").status_code == 409
    assert body(admin.patch(path, {"name": "there"}, format="json"))["name"] == "there"
    held = body(post(charlie, "allocations", percent=5, project="there"))
    create(
        admin,
        "reservations",
        name="course",
        pool="default",
        project="there",
        gpu_count=1,
        starts_at="2099-01-01T08:00:00Z",
        ends_at="2099-01-01T10:00:00Z",
    )
    create(admin, "pools", name="own", projects=["there"])
    create(admin, "quotas", subject_kind="project", subject="there", quota_gpus=1)
    refused = admin.delete(path)
    assert refused.status_code == 409
    blockers = body(refused)["blockers"]
    assert {b["kind"] for b in blockers} == {"allocation", "reservation", "pool"}
    assert held["id"] in [b["id"] for b in blockers]
    Allocation.objects.update(state="released")
    Allocation.objects.get().partitions.all().delete()
    for kind in ("reservations", "pools"):
        for blocker in blockers:
            if f"{blocker['kind']}s" == kind:
                assert admin.delete(f"/api/v1/{kind}/{blocker['id']}").status_code == 204
    assert admin.delete(path).status_code == 204
    assert not body(admin.get("/api/v1/quotas"))["items"]
    assert not RoleBinding.objects.filter(user=cast.charlie).exists()


def test_default_project_is_neither_renamed_nor_deleted(cast: Cast, client_of: Clients) -> None:
    admin, project = client_of(cast.admin), Project.objects.get(name="default")
    path = f"/api/v1/projects/{project.pk}"
    assert admin.patch(path, {"name": "other"}, format="json").status_code == 409
    assert admin.delete(path).status_code == 409


def test_department_with_projects_is_not_deleted(cast: Cast, client_of: Clients) -> None:
    admin = client_of(cast.admin)
    department = create(admin, "departments", name="science")
    project = create(admin, "projects", name="physics", department="science")
    path = f"/api/v1/departments/{department['id']}"
    assert body(admin.patch(path, {"name": "arts"}, format="json"))["name"] == "arts"
    refused = admin.delete(path)
    assert [b["name"] for b in body(refused)["blockers"]] == ["physics"]
    moved = f"/api/v1/projects/{project['id']}"
    assert admin.patch(moved, {"department": ""}, format="json").status_code == 200
    assert admin.delete(path).status_code == 204 and not Department.objects.exists()


def access(client: Any, **query: str) -> Any:
    return client.get("/api/v1/access", query)


def places(client: Any, **query: str) -> list[str]:
    """Return the projects and nodes of the bindings `elsewhere`."""
    found = body(access(client, **query))["elsewhere"]
    return sorted(b["project"] or b["node"] for b in found)


def test_access_names_the_bindings_that_grant_each_privilege(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, admin = add_node(), client_of(cast.admin)
    create(admin, "departments", name="science")
    physics = create(admin, "projects", name="physics", department="science")
    group = create(admin, "groups", name="students")
    create(admin, f"groups/{group['id']}/members", user="charlie")
    create(admin, "role-bindings", group="students", role="operator", department="science")
    found = body(access(admin, user="charlie", object=f"projects/{physics['id']}"))
    sources = {p["name"]: p["bindings"] for p in found["privileges"]}
    assert {"role": "operator", "group": "students", "department": "science"}.items() <= sources[
        "allocations.manage"
    ][0].items()
    assert "pools.manage" not in sources
    science = f"departments/{Department.objects.get().pk}"
    assert body(access(admin, user="charlie", object=science))["privileges"] == found["privileges"]
    for place in ("", f"nodes/{node.pk}"):
        assert not body(access(admin, user="charlie", object=place))["privileges"]
    own = body(access(client_of(cast.charlie), object=f"projects/{physics['id']}"))
    assert own["privileges"] == found["privileges"]


def test_access_of_others_is_shown_to_those_who_manage_them(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node()
    elsewhere, default = (Project.objects.get(name=n).pk for n in ("elsewhere", "default"))
    held = body(post(client_of(cast.alice), "allocations", percent=5))
    ada = client_of(cast.ada)
    assert access(ada, user="charlie", object=f"projects/{elsewhere}").status_code == 200
    assert access(ada, user="charlie").status_code == 200
    assert access(ada, user="alice").status_code == 403
    for place in (f"projects/{default}", f"allocations/{held['id']}"):
        assert access(ada, user="charlie", object=place).status_code == 404
    assert access(client_of(cast.bob), user="alice").status_code == 403
    for place in ("projects", "projects/x", "colours/1"):
        assert access(ada, object=place).status_code == 400


def test_access_without_an_object_lists_bindings_at_objects(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, admin = add_node(), client_of(cast.admin)
    charlies = {"user": "charlie", "role": "viewer"}
    create(admin, "role-bindings", **charlies, project="default")
    create(admin, "role-bindings", **charlies, node=node.name)

    everywhere = sorted(["default", "elsewhere", node.name])
    assert places(admin, user="charlie") == everywhere
    assert places(client_of(cast.charlie)) == everywhere
    ada = client_of(cast.ada)
    assert places(ada, user="charlie") == ["elsewhere"], "ada manages the members of this project"
    assert places(ada) == ["elsewhere"] and not body(access(ada))["privileges"]
    at_project = f"projects/{Project.objects.get(name='elsewhere').pk}"
    assert places(ada, user="charlie", object=at_project) == []
    for name in ("alice", "unknown"):
        assert access(ada, user=name).status_code == 403, "no member of her project"
    assert access(ada, user="charlie", object=f"nodes/{node.pk}").status_code in (403, 404)


def test_manager_of_all_members_is_shown_the_access_of_each_user(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, admin = add_node(), client_of(cast.admin)
    create(admin, "roles", name="people", privileges=["members.manage"])
    create(admin, "role-bindings", user="bob", role="people")
    create(admin, "role-bindings", user="charlie", role="viewer", node=node.name)
    bob = client_of(cast.bob)
    assert places(bob, user="charlie") == sorted(["elsewhere", node.name])
    assert places(bob, user="olga") == [], "her role is on the whole appliance"
    held = {p["name"] for p in body(access(bob, user="olga"))["privileges"]}
    assert "pools.manage" in held
    assert access(bob, user="unknown").status_code == 404
