"""What a user of one project learns of others: by stored responses, quotas and reservations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from appliance.accounts.models import Department, Project, RoleBinding, User
from appliance.allocations.models import Allocation
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
SECRET = "private-to-alice"


@pytest.mark.parametrize("door", ["allocations", "bulk", "atomic"])
def test_stored_response_needs_the_role_that_it_was_made_with(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node], door: str
) -> None:
    """The user keeps a role in another project, so the operation stays open."""
    add_node()
    place = {"user": cast.alice, "project": Project.objects.get(name="elsewhere"), "role": "user"}
    binding = RoleBinding.objects.create(**place)
    request = {"percent": 5, "project": "elsewhere", "name": SECRET}
    operations = [{"method": "POST", "path": "allocations", "body": request}]
    content: dict[str, Any] = {"operations": operations, "atomic": door == "atomic"}
    path, content = ("allocations", request) if door == "allocations" else ("bulk", content)

    def send() -> Any:
        client, url = client_of(cast.alice), f"/api/v1/{path}"
        return client.post(url, content, format="json", HTTP_IDEMPOTENCY_KEY="k")

    first = send()
    assert SECRET in first.content.decode() and body(send()) == body(first)
    binding.delete()
    again = send()
    assert SECRET not in again.content.decode()
    inner = (
        [result["status"] for result in body(again).get("results", [])] if door == "bulk" else []
    )
    assert again.status_code in (404, 422) or inner == [404]
    assert Allocation.objects.filter(name=SECRET).count() == 1


def test_project_that_the_caller_may_not_view_is_not_found_as_an_absent_one(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node]
) -> None:
    add_node()
    viewed = Project.objects.create(name="viewed")
    RoleBinding.objects.create(user=cast.alice, project=viewed, role="viewer")

    def refusal(user: User, project: str) -> tuple[int, str]:
        request = {"percent": 5, "project": project}
        refused = client_of(user).post("/api/v1/allocations", request, format="json")
        return refused.status_code, body(refused)["detail"].replace(project, "P")

    assert refusal(cast.admin, "absent")[0] == 404
    assert refusal(cast.alice, "absent") == refusal(cast.alice, "elsewhere")
    assert refusal(cast.alice, "absent")[0] == 404
    assert refusal(cast.alice, "viewed")[0] == 403


def subjects(client: Any) -> set[str]:
    return {row["subject"] for row in body(client.get("/api/v1/quotas"))["items"]}


def test_quotas_of_other_projects_departments_and_people_are_hidden(
    cast: Cast, client_of: Clients
) -> None:
    default = Project.objects.get(name="default")
    default.department = Department.objects.create(name="science")
    default.save()
    Department.objects.create(name="arts")
    admin = client_of(cast.admin)
    for kind, name in (
        ("project", "default"),
        ("project", "elsewhere"),
        ("department", "science"),
        ("department", "arts"),
        ("user", "alice"),
        ("user", "bob"),
    ):
        content = {"subject_kind": kind, "subject": name, "quota_gpus": 1}
        assert admin.post("/api/v1/quotas", content, format="json").status_code == 201
    assert subjects(client_of(cast.alice)) == {"default", "science", "alice"}
    assert subjects(client_of(cast.charlie)) == {"elsewhere"}
    assert len(subjects(client_of(cast.vera))) == 6
    events = {
        user: client_of(user).get("/api/v1/events").content.decode() for user in cast_of(cast)
    }
    assert "project default" in events[cast.alice] and "default" not in events[cast.charlie]
    assert "user bob" not in events[cast.alice] and "user bob" in events[cast.vera]


def cast_of(cast: Cast) -> tuple[User, ...]:
    return cast.alice, cast.charlie, cast.vera


def test_reservations_of_other_projects_are_hidden(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node]
) -> None:
    add_node()
    begin = timezone.now() + timedelta(days=1)
    content = {
        "name": SECRET,
        "pool": "default",
        "project": "default",
        "gpu_count": 1,
        "starts_at": begin.isoformat(),
        "ends_at": (begin + timedelta(hours=1)).isoformat(),
    }
    created = client_of(cast.olga).post("/api/v1/reservations", content, format="json")
    assert created.status_code == 201
    for path in ("reservations", "events"):
        shown = {
            user: SECRET in client_of(user).get(f"/api/v1/{path}").content.decode()
            for user in cast_of(cast)
        }
        assert shown == {cast.alice: True, cast.charlie: False, cast.vera: True}, path
