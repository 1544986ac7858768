"""API tokens of users and service accounts: creation, listing and revocation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from appliance.accounts.authentication import is_valid
from appliance.accounts.models import ApiToken, User
from appliance.accounts.services import login, token_create
from appliance.api.errors import ApplianceError
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db


def client_with(text: str) -> Any:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def create(client: Any, path: str, **content: object) -> dict[str, Any]:
    response = client.post(f"/api/v1/{path}", content, format="json")
    assert response.status_code == 201, response.content
    return dict(body(response))


def test_token_works_until_it_is_revoked(cast: Cast, client_of: Clients) -> None:
    alice = client_of(cast.alice)
    made = create(alice, "tokens", name="ci", lifetime_seconds=3600)
    program = client_with(made["token"])
    assert body(program.get("/api/v1/me"))["username"] == "alice"
    assert made["token"] not in str(body(alice.get("/api/v1/tokens")))
    end = ApiToken.objects.get(pk=made["id"]).expires_at
    assert end is not None and abs(end - timezone.now() - timedelta(hours=1)) < timedelta(minutes=1)
    assert alice.delete(f"/api/v1/tokens/{made['id']}").status_code == 204
    assert program.get("/api/v1/me").status_code == 401


def test_token_is_valid_including_the_moment_of_its_expiry(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, _ = token_create(user=cast.alice, name="ci", lifetime=timedelta(hours=1))
    end = token.expires_at
    assert end is not None
    monkeypatch.setattr(timezone, "now", lambda: end)
    assert is_valid(token)
    monkeypatch.setattr(timezone, "now", lambda: end + timedelta(microseconds=1))
    assert not is_valid(token)


def test_only_administrators_see_and_revoke_tokens_of_others(
    cast: Cast, client_of: Clients
) -> None:
    made = create(client_of(cast.alice), "tokens", name="ci")
    path = f"/api/v1/tokens/{made['id']}"
    for other in (cast.bob, cast.olga, cast.ada):
        client = client_of(other)
        assert {t["user"] for t in body(client.get("/api/v1/tokens"))["items"]} == {other.username}
        assert client.get(path).status_code == client.delete(path).status_code == 404
    admin = client_of(cast.admin)
    assert [t["id"] for t in body(admin.get("/api/v1/tokens?user=alice&name=ci"))["items"]] == [
        made["id"]
    ]
    assert admin.delete(path).status_code == 204


def test_service_account_has_tokens_and_no_password(cast: Cast, client_of: Clients) -> None:
    admin = client_of(cast.admin)
    account = create(admin, "users", username="ci", is_service=True)
    assert account["one_time_password"] is None and account["is_service"] is True
    create(admin, "role-bindings", user="ci", role="user", project="default")
    made = create(admin, "tokens", name="pipeline", user="ci")
    me = body(client_with(made["token"]).get("/api/v1/me"))
    assert me["username"] == "ci" and "allocations.create" in me["privileges"]
    assert admin.post(f"/api/v1/users/{account['id']}/reset-password").status_code == 409
    for password in ("", "!"):
        with pytest.raises(ApplianceError):
            login(username="ci", password=password)


def test_token_of_another_person_cannot_be_made(cast: Cast, client_of: Clients) -> None:
    wanted = {"name": "x", "user": "alice"}
    for user in (cast.bob, cast.ada, cast.admin):
        refused = client_of(user).post("/api/v1/tokens", wanted, format="json")
        assert refused.status_code == 403, user
    create(client_of(cast.alice), "tokens", **wanted)


def test_account_manager_gets_no_token_of_a_stronger_service(
    cast: Cast, client_of: Clients
) -> None:
    admin = client_of(cast.admin)
    create(admin, "roles", name="accountant", privileges=["accounts.manage"])
    create(admin, "role-bindings", user="bob", role="accountant")
    create(admin, "users", username="deployer", is_service=True)
    create(admin, "role-bindings", user="deployer", role="administrator")
    strong = create(admin, "tokens", name="deploy", user="deployer")
    bob = client_of(cast.bob)
    wanted = {"name": "mine", "user": "deployer"}
    assert bob.post("/api/v1/tokens", wanted, format="json").status_code == 403
    assert bob.delete(f"/api/v1/tokens/{strong['id']}").status_code == 403
    create(bob, "users", username="weak", is_service=True)
    create(bob, "tokens", name="mine", user="weak")


@pytest.mark.parametrize("seconds", [0, 59, 367 * 86400, "8h"])
def test_lifetime_has_bounds(cast: Cast, client_of: Clients, seconds: object) -> None:
    request = {"name": "x", "lifetime_seconds": seconds}
    response = client_of(cast.alice).post("/api/v1/tokens", request, format="json")
    assert response.status_code == 400


def test_token_has_one_text(cast: Cast, client_of: Clients) -> None:
    """Each other text would have entries of its own in the caches, which have limits."""
    text = create(client_of(cast.alice), "tokens", name="ci")["token"]
    head, _, secret = text.removeprefix("bb_").partition(".")
    assert client_with(text).get("/api/v1/me").status_code == 200
    for other in (
        f"{head}.{secret}",
        f"bb_{{{head}}}.{secret}",
        f"bb_urn:uuid:{head}.{secret}",
        f"bb_{head[:8]}-{head[8:]}.{secret}",
        f"bb_{head.upper()}.{secret}",
        f"bb_{head}.{secret}.",
    ):
        assert other == text or client_with(other).get("/api/v1/me").status_code == 401, other
