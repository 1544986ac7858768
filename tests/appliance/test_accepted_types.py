"""`Accept` headers of clients that ask for the type that a stream or an export has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import User
from tests.appliance.conftest import Cast

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("watch", "text/event-stream"),
        ("audit/export", "application/x-ndjson"),
        ("audit/export", "text/html, */*;q=0.1"),
    ],
)
def test_documented_type_is_accepted(
    client_of: Clients, cast: Cast, path: str, accept: str
) -> None:
    response = client_of(cast.admin).get(f"/api/v1/{path}", HTTP_ACCEPT=accept)
    assert response.status_code == 200, response.content


@pytest.mark.parametrize(
    ("path", "accept"),
    [("watch?kinds=none", "text/event-stream"), ("audit/export?after=x", "application/x-ndjson")],
)
def test_error_of_a_stream_is_a_problem_document(
    client_of: Clients, cast: Cast, path: str, accept: str
) -> None:
    response = client_of(cast.admin).get(f"/api/v1/{path}", HTTP_ACCEPT=accept)
    assert response.status_code == 400
    assert response["Content-Type"].startswith("application/problem+json")
