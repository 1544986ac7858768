"""Tokens end with the password and the account of their user, also when other code changes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command

from appliance.accounts import services
from appliance.accounts.models import ApiToken, User
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db
PASSWORD, NEW_PASSWORD = "correct horse battery", "another horse battery"


@pytest.fixture
def olga(cast: Cast) -> User:
    services.password_change(user=cast.olga, new_password=PASSWORD)
    return cast.olga


def log_in(client_of: Clients, **content: str) -> Any:
    return client_of(None).post("/api/v1/login", {"username": "olga"} | content, format="json")


def client_with(token: str, client_of: Clients) -> Any:
    client = client_of(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def test_token_of_the_one_time_password_ends_when_the_user_chooses_one(
    olga: User, client_of: Clients
) -> None:
    one_time = services.set_one_time_password(user=olga)
    early = client_with(body(log_in(client_of, password=one_time))["token"], client_of)
    assert early.get("/api/v1/me").status_code == 200
    changed = body(log_in(client_of, password=one_time, new_password=NEW_PASSWORD))
    assert early.get("/api/v1/me").status_code == 401
    assert client_with(changed["token"], client_of).get("/api/v1/me").status_code == 200


def change_by_login(olga: User, client_of: Clients) -> None:
    changed = log_in(client_of, password=PASSWORD, new_password=NEW_PASSWORD)
    assert changed.status_code == 200


def reset_by_service(olga: User, client_of: Clients) -> None:
    services.set_one_time_password(user=olga)


def reset_by_command(olga: User, client_of: Clients) -> None:
    User.objects.exclude(pk=olga.pk).filter(username="admin").update(username="other")
    olga.username = "admin"
    olga.save()
    call_command("reset_password")


def change_the_row(olga: User, client_of: Clients) -> None:
    olga.set_password(NEW_PASSWORD)
    olga.save()


def make_password_unusable(olga: User, client_of: Clients) -> None:
    olga.set_unusable_password()
    olga.save()


def deactivate(olga: User, client_of: Clients) -> None:
    olga.is_active = False
    olga.save()


@pytest.mark.parametrize(
    "change",
    [
        change_by_login,
        reset_by_service,
        reset_by_command,
        change_the_row,
        make_password_unusable,
        deactivate,
    ],
    ids=lambda change: change.__name__,
)
def test_every_token_of_the_user_ends(
    olga: User, client_of: Clients, change: Callable[[User, Clients], None]
) -> None:
    texts = [
        body(log_in(client_of, password=PASSWORD))["token"],
        services.token_create(user=olga, name="long", lifetime=timedelta(days=300))[1],
        services.token_create(user=olga, name="unlimited")[1],
    ]
    clients = [client_with(text, client_of) for text in texts]
    assert [c.get("/api/v1/me").status_code for c in clients] == [200] * 3
    change(olga, client_of)
    assert [c.get("/api/v1/me").status_code for c in clients] == [401] * 3


def test_password_change_keeps_tokens_of_other_users_and_deletes_its_own(
    cast: Cast, olga: User, client_of: Clients
) -> None:
    vera, _ = client_of(cast.vera), client_of(olga)
    services.password_change(user=olga, new_password=NEW_PASSWORD)
    assert vera.get("/api/v1/me").status_code == 200
    assert not ApiToken.objects.filter(user=olga).exists()


def test_token_of_a_login_that_overlaps_a_password_change_is_invalid(
    olga: User, client_of: Clients
) -> None:
    checked = services.login(username="olga", password=PASSWORD)
    services.password_change(user=olga, new_password=NEW_PASSWORD)
    _, text = services.token_create(user=checked, name="late")
    assert client_with(text, client_of).get("/api/v1/me").status_code == 401
