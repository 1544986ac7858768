"""The project of a request that names none, and the projects that `busbar doctor` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import Department, Project, Role, RoleBinding, User
from appliance.accounts.services import token_create
from remoting.cli.doctor_finding import Finding
from remoting.cli.doctor_projects import projects_finding
from tests.appliance.commands_in_process import BusbarOf, InProcessApi
from tests.appliance.conftest import Cast

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
CREATE = ("allocation", "create", "-p", "5", "--lifetime", "1h")


@pytest.fixture(autouse=True)
def node(cast: Cast, add_node: Callable[..., Any]) -> None:
    add_node()


def project_of_request(client: Any) -> str:
    made = client.post("/api/v1/allocations", {"percent": 5}, format="json")
    assert made.status_code == 202, made.content
    return str(made.json()["project"])


def doctor(client: Any) -> Finding:
    return projects_finding(InProcessApi(client))


def test_request_without_a_project_takes_the_only_one(
    cast: Cast, client_of: Clients, busbar_of: BusbarOf
) -> None:
    client = client_of(cast.charlie)
    assert project_of_request(client) == "elsewhere"
    done = busbar_of(client)(*CREATE)
    assert done.status == 0, done
    assert doctor(client).found == "charlie may request GPUs in project elsewhere."


def test_viewer_of_the_default_project_requests_in_the_own_one(
    cast: Cast, client_of: Clients
) -> None:
    assert project_of_request(client_of(cast.viola)) == "elsewhere"


def test_default_project_comes_before_others(cast: Cast, client_of: Clients) -> None:
    elsewhere = Project.objects.get(name="elsewhere")
    RoleBinding.objects.create(user=cast.alice, project=elsewhere, role=Role.USER)
    assert project_of_request(client_of(cast.alice)) == "default"
    assert project_of_request(client_of(cast.admin)) == "default"
    found = doctor(client_of(cast.alice)).found
    assert found == "alice may request GPUs in project default, project elsewhere."
    assert doctor(client_of(cast.admin)).found == "admin may request GPUs in all projects."


def test_one_of_several_projects_must_be_named(
    cast: Cast, client_of: Clients, busbar_of: BusbarOf
) -> None:
    science = Department.objects.create(name="science")
    Project.objects.create(name="physics", department=science)
    RoleBinding.objects.create(user=cast.charlie, department=science, role=Role.USER)
    busbar = busbar_of(client_of(cast.charlie))
    done = busbar(*CREATE)
    assert done.status == 2 and "in several projects: elsewhere, physics. " in done.err, done
    assert "add --project NAME" in done.err
    assert busbar(*CREATE, "--project", "physics").status == 0
    found = doctor(client_of(cast.charlie))
    assert found.found.endswith("in project elsewhere, projects of department science.")


def test_user_who_may_request_no_gpu_is_told_what_to_do(
    cast: Cast, client_of: Clients, busbar_of: BusbarOf
) -> None:
    for user in (cast.vera, cast.nina):
        client = client_of(user)
        done = busbar_of(client)(*CREATE)
        assert done.status == 5, done
        found = doctor(client)
        assert found.state == "failed" and found.found.endswith("GPUs in no project.")
        assert found.fix == "Ask an administrator of a project for the role user in it."


def test_token_without_the_scope_may_request_no_gpu(cast: Cast, client_of: Clients) -> None:
    token = token_create(user=cast.alice, name="narrow", scopes=["account.self"])[1]
    client = client_of(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    found = doctor(client)
    assert (found.state, found.found) == ("failed", "The token of alice may request no GPUs.")
