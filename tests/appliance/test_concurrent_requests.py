"""Requests that two appliances on one PostgreSQL database receive at once, with one key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction

from appliance.accounts.idempotency import Authorize, Effect, Store
from appliance.accounts.models import User
from appliance.pools.models import Pool
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


class FirstEffect:
    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()


@pytest.fixture
def first_effect(monkeypatch: pytest.MonkeyPatch) -> Iterator[FirstEffect]:
    """Hold the effect of the first request until the test lets it go on."""
    first, run_once = FirstEffect(), Store.run_once

    def hold(store: Store, effect: Effect, authorize: Authorize) -> Any:
        def held() -> tuple[int, dict[str, Any]]:
            is_first = not first.begun.is_set()
            first.begun.set()
            try:
                return effect()
            finally:
                assert not is_first or first.may_end.wait(TIMEOUT_SECONDS)

        return run_once(store, held, authorize)

    monkeypatch.setattr(Store, "run_once", hold)
    yield first
    first.may_end.set()


def post(client: Any, content: dict[str, Any]) -> Any:
    client.raise_request_exception = False
    try:
        return client.post("/api/v1/pools", content, format="json", HTTP_IDEMPOTENCY_KEY="k")
    finally:
        connection.close()


def patch(client: Any, pool: Pool, content: dict[str, Any]) -> Any:
    client.raise_request_exception = False
    try:
        return client.patch(f"/api/v1/pools/{pool.pk}", content, format="json")
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("name", "answer"), [("a", (201, None)), ("b", (422, "idempotency_mismatch"))]
)
def test_request_during_the_first_one_with_its_key_is_told_to_repeat_it(
    cast: Cast,
    client_of: Clients,
    first_effect: FirstEffect,
    name: str,
    answer: tuple[int, str | None],
) -> None:
    with ThreadPoolExecutor(2) as appliances:
        first = appliances.submit(post, client_of(cast.admin), {"name": "a"})
        assert first_effect.begun.wait(TIMEOUT_SECONDS)
        early = appliances.submit(post, client_of(cast.admin), {"name": name})
        try:
            refused = early.result(TIMEOUT_SECONDS)
        finally:
            first_effect.may_end.set()
        made = first.result(TIMEOUT_SECONDS)
        again = appliances.submit(post, client_of(cast.admin), {"name": name}).result()
    assert (refused.status_code, body(refused)["code"]) == (503, "busy"), refused.content
    assert int(refused["Retry-After"]) > 0
    assert made.status_code == 201, made.content
    assert (again.status_code, body(again).get("code")) == answer
    if answer[1] is None:
        assert body(again) == body(made)


def test_request_after_a_failed_one_with_its_key_has_its_own_effect(
    cast: Cast, client_of: Clients, first_effect: FirstEffect
) -> None:
    first_effect.may_end.set()
    failed = post(client_of(cast.admin), {"name": "a", "fallbacks": ["no"]})
    other = post(client_of(cast.admin), {"name": "a"})
    assert (failed.status_code, other.status_code) == (404, 201)


def test_change_of_a_row_that_another_appliance_holds_is_told_to_repeat_it(
    cast: Cast, client_of: Clients
) -> None:
    pool, client = Pool.objects.create(name="held"), client_of(cast.admin)
    with ThreadPoolExecutor(1) as appliances, transaction.atomic():
        Pool.objects.select_for_update().get(pk=pool.pk)
        change = appliances.submit(patch, client, pool, {"labels": {"a": "b"}})
        refused = change.result(TIMEOUT_SECONDS)
    assert (refused.status_code, body(refused)["code"]) == (503, "busy"), refused.content
    assert patch(client, pool, {"labels": {"a": "b"}}).status_code == 200
