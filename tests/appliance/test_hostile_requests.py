"""Requests that no client sends: each gets a problem, and none makes a line in the log."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils.log import configure_logging

from appliance.accounts.models import Project, User
from appliance.accounts.services import login
from appliance.http.login_gate import username_in
from appliance.http.request import Execution, execution_of
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db
PASSWORD = "fjord-lamp-9031-quilt"


@pytest.fixture
def own_log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Records of the loggers with the levels of a running appliance."""
    configure_logging("logging.config.dictConfig", settings.LOGGING | {"handlers": {}, "root": {}})
    caplog.set_level(logging.INFO, "root")
    return caplog


MALFORMED = {
    "nesting": "[" * 60_000,
    "lone surrogate": '{"name": "\\ud800"}',
    "lone surrogate in a key": '{"selector": {"\\ud800": "x"}}',
    "infinite number": '{"gpu_count": 1e999}',
    "integer of 70 bits": '{"gpu_count": 1180591620717411303424}',
    "byte order mark": "\ufeff{}",
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("path", ["enrol", "allocations", "bulk"])
def test_malformed_json_is_refused_without_a_traceback(
    cast: Cast, client_of: Clients, own_log: pytest.LogCaptureFixture, path: str, name: str
) -> None:
    content = MALFORMED[name]
    if path == "bulk":
        operation = '{"method": "POST", "path": "allocations", "body": %s}'
        content = '{"operations": [' + operation % content + "]}"
    response = client_of(cast.alice).post(
        f"/api/v1/{path}", content.encode(), content_type="application/json"
    )
    answers = body(response)["results"] if response.status_code == 200 else [body(response)]
    assert [a["status"] for a in answers] == [400]
    assert own_log.records == []


LOGIN = json.dumps({"username": "alice", "password": PASSWORD})
OTHER_CHARSETS = {
    "utf-7": LOGIN.replace("alice", "+AGEAbABpAGMAZQ-").encode(),
    "utf-16": LOGIN.encode("utf-16"),
    "cp037": LOGIN.encode("cp037"),
}


@pytest.mark.parametrize("charset", OTHER_CHARSETS)
def test_login_gate_and_view_read_the_same_username(cast: Cast, charset: str) -> None:
    """Otherwise guesses at one account count for another one, or for none."""
    cast.alice.set_password(PASSWORD)
    cast.alice.save()
    content = OTHER_CHARSETS[charset]
    response = Client().generic(
        "POST", "/api/v1/login", content, f"application/json; charset={charset}"
    )
    assert response.status_code in (400, 401)
    assert username_in(content) != "alice"
    assert login(username="alice", password=PASSWORD) == cast.alice


@pytest.mark.parametrize("host", ["a b", "a,b", "<script>", "a\\b"])
def test_malformed_host_gets_a_problem_and_no_line(
    db: None, own_log: pytest.LogCaptureFixture, host: str
) -> None:
    response = Client().get("/api/v1/ca", headers={"host": host})
    assert (response.status_code, response["Content-Type"]) == (400, "application/problem+json")
    assert own_log.records == []


@pytest.mark.parametrize("path", ["%00", "a" * 5000, "a/" * 3000, "..%2f%00"])
def test_impossible_file_name_is_not_found(
    db: None, own_log: pytest.LogCaptureFixture, path: str
) -> None:
    assert Client().get(f"/docs/{path}").status_code == 404
    assert own_log.records == []


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("since=0001-01-01T00:00:00%2B14:00", 200),
        ("until=9999-12-31T23:59:59-14:00", 200),
        ("until=0001-01-01T00:00:00Z", 200),
        ("resolution_seconds=" + "1" * 5000, 400),
    ],
)
def test_extreme_period_of_a_history_is_no_failure(
    cast: Cast, client_of: Clients, query: str, status: int
) -> None:
    project = Project.objects.get(name="default")
    response = client_of(cast.vera).get(f"/api/v1/projects/{project.pk}/metrics?{query}")
    assert response.status_code == status, body(response)


@pytest.mark.parametrize("query", [b"dry_run=true", b"dry%5Frun=true", b"%64ry_run=true"])
def test_dry_run_is_never_executed_in_the_process_that_only_reads(query: bytes) -> None:
    path = "/api/v1/allocations/01a20fe6-4c8e-7000-89d9-e00cd53e8de3/tickets"
    scope = {"method": "POST", "path": path}
    assert execution_of(scope) is Execution.READ
    assert execution_of(scope | {"query_string": query}) is Execution.WRITE


def test_body_of_the_largest_size_is_parsed(cast: Cast, client_of: Clients) -> None:
    content = json.dumps({"name": "x" * 3_900_000})
    response = client_of(cast.alice).post(
        "/api/v1/allocations", content, content_type="application/json"
    )
    assert response.status_code == 400 and body(response)["errors"][0]["pointer"] == "/name"


CONTROLS = ["\x1b[2J", "a\u202eb", "a\x00", "a\x9b1m", "a\u2066"]


@pytest.mark.parametrize("text", CONTROLS, ids=ascii)
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("allocations", "name"),
        ("pools", "name"),
        ("pools", "network"),
        ("sites", "name"),
        ("projects", "name"),
        ("departments", "name"),
    ],
)
def test_text_that_controls_a_terminal_is_refused(
    cast: Cast, client_of: Clients, path: str, field: str, text: str
) -> None:
    values = {"name": "ordinary"} | {field: text}
    response = client_of(cast.admin).post(f"/api/v1/{path}", values, format="json")
    assert response.status_code == 400, body(response)
    assert f"/{field}" in {e["pointer"] for e in body(response)["errors"]}


@pytest.mark.parametrize(
    "labels",
    [
        {f"k{n}": "v" for n in range(65)},
        {"k" * 61: "v"},
        {"k": "v" * 201},
        {"": "v"},
        {"\x1b[2J": "v"},
        {"k": "\x1b[2J"},
    ],
    ids=["many", "long key", "long value", "empty key", "control in key", "control in value"],
)
def test_labels_are_few_and_short(
    cast: Cast, client_of: Clients, labels: dict[str, str], add_node: Callable[..., Any]
) -> None:
    """A request of a tenant would otherwise add megabytes to each list and to the scheduler."""
    assert (
        client_of(cast.alice)
        .post("/api/v1/allocations", {"percent": 1, "selector": labels}, format="json")
        .status_code
        == 400
    )
    node = add_node()
    for path in (f"nodes/{node.pk}", f"gpus/{node.gpus.get().pk}"):
        changed = client_of(cast.olga).patch(f"/api/v1/{path}", {"labels": labels}, format="json")
        assert changed.status_code == 400, body(changed)
