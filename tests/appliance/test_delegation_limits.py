"""A role with `accounts.manage` alone is no way to the privileges of projects and departments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import CustomRole, Department, Group, Project, RoleBinding, User
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db


@pytest.fixture
def helen(cast: Cast) -> User:
    """A help desk: it manages accounts and nothing else."""
    CustomRole.objects.create(name="helpdesk", privileges=["accounts.manage", "account.self"])
    user = User.objects.create(username="helen")
    RoleBinding.objects.create(user=user, role="helpdesk")
    return user


@pytest.fixture
def theirs(cast: Cast) -> Project:
    return Project.objects.get(name="elsewhere")


@pytest.fixture
def lab() -> Department:
    """A department whose administrators are the group `leads` and dan."""
    department = Department.objects.create(name="lab")
    leads = Group.objects.create(name="leads")
    dan = User.objects.create(username="dan", password="pbkdf2_sha256$1$a$b")
    for member in ({"group": leads}, {"user": dan}):
        RoleBinding.objects.create(role="administrator", department=department, **member)
    return department


def move(client: Any, project: Project, department: str) -> int:
    path = f"/api/v1/projects/{project.pk}"
    return int(client.patch(path, {"department": department}, format="json").status_code)


def test_project_is_not_moved_to_get_its_privileges(
    helen: User, theirs: Project, lab: Department, client_of: Clients
) -> None:
    RoleBinding.objects.create(user=helen, role="administrator", department=lab)
    assert move(client_of(helen), theirs, "lab") == 403


def test_project_is_not_moved_to_end_the_privileges_of_others(
    helen: User, theirs: Project, lab: Department, client_of: Clients
) -> None:
    Project.objects.filter(pk=theirs.pk).update(department=lab)
    assert move(client_of(helen), theirs, "") == 403


def test_administrator_moves_projects(
    cast: Cast, theirs: Project, lab: Department, client_of: Clients
) -> None:
    admin = client_of(cast.admin)
    assert [move(admin, theirs, to) for to in ("lab", "")] == [200, 200]


def test_project_moves_between_departments_without_bindings(
    helen: User, theirs: Project, client_of: Clients
) -> None:
    Department.objects.create(name="empty")
    assert [move(client_of(helen), theirs, to) for to in ("empty", "")] == [200, 200]


@pytest.mark.parametrize("way", ["join the group", "reset the password"])
def test_privileges_of_a_department_count_before_it_has_projects(
    helen: User, lab: Department, client_of: Clients, way: str
) -> None:
    """A project that moves into the department would bring them."""
    path, content = {
        "join the group": (f"groups/{Group.objects.get().pk}/members", {"user": "helen"}),
        "reset the password": (f"users/{User.objects.get(username='dan').pk}/reset-password", {}),
    }[way]
    response = client_of(helen).post(f"/api/v1/{path}", content, format="json")
    assert response.status_code == 403


def test_address_of_an_administrator_is_changed_only_with_the_same_privileges(
    cast: Cast, helen: User, client_of: Clients
) -> None:
    path, content = f"/api/v1/users/{cast.admin.pk}", {"email": "helen@example.org"}
    assert client_of(helen).patch(path, content, format="json").status_code == 403
    assert client_of(cast.admin).patch(path, content, format="json").status_code == 200


def test_deletion_does_not_end_privileges_that_the_actor_lacks(
    cast: Cast, helen: User, theirs: Project, lab: Department, client_of: Clients
) -> None:
    paths = (f"/api/v1/projects/{theirs.pk}", f"/api/v1/departments/{lab.pk}")
    assert [client_of(helen).delete(path).status_code for path in paths] == [403, 403]
    assert [client_of(cast.admin).delete(path).status_code for path in paths] == [204, 204]


def test_project_administrator_does_not_learn_names_elsewhere(
    cast: Cast, client_of: Clients
) -> None:
    Project.objects.create(name="hidden")
    Group.objects.create(name="hidden-group")
    ada, replies = client_of(cast.ada), []
    for project in ("hidden", "absent"):
        for member in ({"user": "alice"}, {"group": "hidden-group"}, {"group": "absent-group"}):
            content = {"role": "user", "project": project, **member}
            response = ada.post("/api/v1/role-bindings", content, format="json")
            replies.append((response.status_code, body(response)["detail"].replace(project, "")))
    assert set(replies) == {(404, 'Project "" not found.')}


@pytest.mark.parametrize("kind", ["groups", "projects", "departments"])
def test_names_by_which_roles_are_bound_are_not_exchanged(
    helen: User, theirs: Project, lab: Department, client_of: Clients, cast: Cast, kind: str
) -> None:
    """A program that binds a role to a name again would bind it to an object of helen's."""
    helper, admin = client_of(helen), client_of(cast.admin)
    bound = {"groups": Group.objects.get(), "projects": theirs, "departments": lab}[kind]
    path = f"/api/v1/{kind}/{bound.pk}"
    refused = helper.patch(path, {"name": "aside"}, format="json")
    assert (refused.status_code, body(refused)["code"]) == (403, "denied")
    own = body(helper.post(f"/api/v1/{kind}", {"name": "own"}, format="json"))["id"]
    renamed = helper.patch(f"/api/v1/{kind}/{own}", {"name": "other"}, format="json")
    assert renamed.status_code == 200
    assert admin.patch(path, {"name": "aside"}, format="json").status_code == 200
