"""What each account of the guide for a department may do, and what the audit tells of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from remoting.cli.api import Api, ApiError
from tests.system.department.conftest import CHEMISTS, HELD, PHYSICISTS, Department

pytestmark = pytest.mark.system
PROJECTS = {"physics": PHYSICISTS, "chemistry": CHEMISTS}
OTHER = {"physics": "chemistry", "chemistry": "physics"}
MADE = {
    "departments_create": 1,
    "projects_create": 2,
    "quotas_create": 3,
    "groups_create": 4,
    "roles_create": 1,
    "users_create": 3,
    "tokens_create": 1,
    "role_bindings_create": 6,
}
"""Number of objects that the administrator makes in the guide, by the operation."""
NOT_FOR_AUDITORS = (
    "allocations",
    "events",
    "gpus",
    "groups",
    "nodes",
    "pools",
    "projects",
    "quotas",
    "role-bindings",
    "settings",
    "tasks",
    "users",
)


def code_of(api: Api, method: str, path: str, body: Any = None, **query: str) -> str:
    """Return the error code of a request that must be refused."""
    with pytest.raises(ApiError) as refused:
        api.request(method, path, body, **query)
    return refused.value.code


@pytest.mark.parametrize("project", PROJECTS)
def test_each_person_uses_gpus_of_the_own_project_only(
    department: Department, project: str
) -> None:
    lead, *members = PROJECTS[project]
    held = {name: department.allocate(name, project) for name in members}
    for name in members:
        api = department.api(name)
        assert api.request("GET", "me")["source"] == "ldap"
        assert [p["name"] for p in api.items("projects")] == [project]
        refused = {"percent": 5, "project": OTHER[project]}
        assert code_of(api, "POST", "allocations", refused) == "not_found"
        colleague = held[next(m for m in members if m != name)]
        path = f"allocations/{colleague['id']}"
        assert api.request("GET", path)["owner"] != name
        assert code_of(api, "DELETE", path) == "denied"
        assert code_of(api, "GET", "role-bindings") == "denied"
    for allocation in held.values():
        path = f"allocations/{allocation['id']}"
        assert code_of(department.api(PROJECTS[OTHER[project]][0]), "DELETE", path) == "not_found"
        department.release(lead, allocation["id"])


def test_leads_manage_the_members_of_their_project_only(department: Department) -> None:
    ada, fay = department.api("ada"), department.api("fay")
    assert {b["project"] for b in ada.items("role-bindings")} == {"physics"}
    made = ada.request(
        "POST", "role-bindings", {"user": "hana", "role": "viewer", "project": "physics"}
    )
    hana = department.api("hana")
    assert [p["name"] for p in hana.items("projects")] == ["chemistry", "physics"]
    refused = {"percent": 5, "project": "physics"}
    assert code_of(hana, "POST", "allocations", refused) == "denied"
    path = f"role-bindings/{made['id']}"
    assert code_of(fay, "DELETE", path) == "not_found"
    everywhere = {"user": "ben", "role": "viewer"}
    for place in ({}, {"department": "science"}, {"pool": "default"}):
        code = code_of(ada, "POST", "role-bindings", everywhere | place)
        assert code in ("denied", "not_found")
    ada.request("DELETE", path)
    assert [p["name"] for p in hana.items("projects")] == ["chemistry"]


def test_project_never_exceeds_its_limit(department: Department) -> None:
    whole = department.allocate("ben", "physics", percent=100)
    more = {"percent": 5, "project": "physics", **HELD}
    waiting = department.api("carol").request("POST", "allocations", more)
    assert waiting["state"] == "queued" and "limit" in waiting["waiting_reason"].lower()
    other = department.allocate("hana", "chemistry")
    department.release("ben", whole["id"])
    department.wait("the start", lambda: department.state(waiting["id"]) == "active", 60)
    department.release("carol", waiting["id"])
    department.release("hana", other["id"])


def test_program_of_ci_uses_its_project_and_nothing_else(department: Department) -> None:
    ci = department.api("ci")
    held = department.allocate("ci", "physics")
    assert code_of(department.api("fay"), "GET", f"allocations/{held['id']}") == "not_found"
    department.release("ci", held["id"])
    wider = {"name": "wider", "scopes": ["operator"]}
    assert code_of(ci, "POST", "tokens", wider) == "denied"
    assert code_of(ci, "POST", "role-bindings", {"user": "ci", "role": "user"}) == "denied"
    assert code_of(ci, "GET", "audit") == "denied"
    password = {"username": "ci", "password": "a password that it does not have"}
    assert code_of(ci, "POST", "login", password) == "unauthenticated"


def test_auditor_reads_the_audit_records_only(department: Department) -> None:
    vera = department.api("vera")
    for kind in NOT_FOR_AUDITORS:
        assert code_of(vera, "GET", kind) == "denied", kind
    body = {"percent": 5, "project": "physics"}
    assert code_of(vera, "POST", "allocations", body) == "denied"
    record = vera.request("GET", "audit", limit="1")["items"][0]
    assert vera.request("GET", f"audit/{record['id']}")["id"] == record["id"]
    assert code_of(department.api("ben"), "GET", "audit") == "denied"


def test_person_who_leaves_the_directory_loses_access_while_the_appliance_runs(
    department: Department,
) -> None:
    department.directory.add("kim")
    kim = department.api("kim")
    assert kim.request("GET", "me")["source"] == "ldap"
    department.directory.remove("kim")
    admin = department.api("admin")

    def has_ended() -> bool:
        found = admin.request("GET", "users", username="kim")["items"]
        return found[0]["is_active"] is False

    department.wait("the end of the access", has_ended)
    assert code_of(kim, "GET", "me") == "unauthenticated"
    record = admin.request("GET", "audit", actor="directory", limit="1")["items"][0]
    assert record["object_name"] == "kim" and record["after"]["is_active"] is False


def test_audit_shows_every_step_and_verifies(department: Department) -> None:
    vera, refused = department.api("vera"), {"outcome": "refused"}
    for name in (*PHYSICISTS, *CHEMISTS):
        department.token(name)

    def is_sealed() -> bool:
        newest = vera.request("GET", "audit", limit="1", outcome="succeeded")["items"][0]
        return newest["sequence"] is not None

    department.wait("the seal", is_sealed)
    made = Counter(r["action"] for r in vera.items("audit", actor="admin", outcome="succeeded"))
    assert Counter(MADE) <= made
    logins = {r["actor"] for r in vera.items("audit", action="login_create", outcome="succeeded")}
    assert logins >= {*PHYSICISTS, *CHEMISTS, "admin", "vera"}
    denied = {
        (r["actor"], r["action"], r["code"])
        for name in ("ada", "ci", "vera")
        for r in vera.items("audit", actor=name, **refused)
    }
    assert denied >= {
        ("ada", "allocations_create", "not_found"),
        ("ada", "role_bindings_create", "not_found"),
        ("ci", "allocations_create", "not_found"),
        ("ci", "users_list", "denied"),
        ("vera", "projects_create", "denied"),
    }
    found = vera.request("GET", "audit/verification")
    assert found["problem"] is None and found["sequence"] == found["newest_sequence"] > 30
