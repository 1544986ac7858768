"""Requests that two appliances on one PostgreSQL database receive at once, with one key."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from appliance.accounts.idempotency import Effect, Store
from appliance.accounts.models import User
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = [
    pytest.mark.skipif(
        connection.vendor != "postgresql",
        reason="SQLite allows one appliance only, see running/test_process.py",
    ),
    pytest.mark.django_db(transaction=True, databases=list(settings.DATABASES)),
]
TIMEOUT_SECONDS = 120.0
WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE NOT granted AND locktype = 'advisory' AND datname = current_database()
"""


def is_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(WAITING)
        return bool(cursor.fetchone()[0])


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the other request did not come"


@pytest.fixture
def first_effect(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hold the effect of the first request until another one waits for it, or has its own."""
    begun, second, run_once = threading.Event(), threading.Event(), Store.run_once

    def hold(store: Store, effect: Effect, authorize: Callable[[], object]) -> Any:
        def held() -> tuple[int, dict[str, Any]]:
            if begun.is_set():
                second.set()
                return effect()
            begun.set()
            try:
                return effect()
            finally:
                wait_until(lambda: second.is_set() or is_waiting())

        return run_once(store, held, authorize)

    monkeypatch.setattr(Store, "run_once", hold)
    return begun


def post(client: Any, content: dict[str, Any]) -> Any:
    client.raise_request_exception = False
    try:
        return client.post("/api/v1/pools", content, format="json", HTTP_IDEMPOTENCY_KEY="k")
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("name", "answer"), [("a", (201, None)), ("b", (422, "idempotency_mismatch"))]
)
def test_request_during_the_first_one_with_its_key_gets_the_stored_response(
    cast: Cast,
    client_of: Clients,
    first_effect: threading.Event,
    name: str,
    answer: tuple[int, str | None],
) -> None:
    with ThreadPoolExecutor(2) as appliances:
        first = appliances.submit(post, client_of(cast.admin), {"name": "a"})
        assert first_effect.wait(TIMEOUT_SECONDS)
        other = appliances.submit(post, client_of(cast.admin), {"name": name})
        made, again = first.result(TIMEOUT_SECONDS), other.result(TIMEOUT_SECONDS)
    assert made.status_code == 201, made.content
    assert (again.status_code, body(again).get("code")) == answer
    if answer[1] is None:
        assert body(again) == body(made)


def test_request_after_a_failed_one_with_its_key_has_its_own_effect(
    cast: Cast, client_of: Clients, first_effect: threading.Event
) -> None:
    with ThreadPoolExecutor(2) as appliances:
        first = appliances.submit(post, client_of(cast.admin), {"name": "a", "fallbacks": ["no"]})
        assert first_effect.wait(TIMEOUT_SECONDS)
        other = appliances.submit(post, client_of(cast.admin), {"name": "a"})
        statuses = [r.result(TIMEOUT_SECONDS).status_code for r in (first, other)]
    assert statuses == [404, 201]
