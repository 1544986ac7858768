"""Tokens that programs make with their own token: they never permit more, and end with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from appliance.accounts import roles, tokens
from appliance.accounts.models import ApiToken, IdempotencyKey, User
from appliance.accounts.services import token_create
from appliance.audit.models import AuditRecord
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db


def signed_by(client_of: Clients, text: str) -> Any:
    client = client_of(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def make(client: Any, **content: object) -> Any:
    return client.post("/api/v1/tokens", {"name": "ci", **content}, format="json")


def test_token_of_a_program_makes_none_that_lasts_longer(cast: Cast, client_of: Clients) -> None:
    own, text = token_create(user=cast.alice, name="ci", lifetime=timedelta(hours=1))
    program = signed_by(client_of, text)
    assert make(program, lifetime_seconds=366 * 86400).status_code == 403
    made = ApiToken.objects.get(pk=body(make(program))["id"])
    assert made.expires_at == own.expires_at and made.made_with_id == own.pk


def test_revoked_token_ends_those_that_it_made(cast: Cast, client_of: Clients) -> None:
    own, text = token_create(user=cast.alice, name="ci", lifetime=timedelta(hours=1))
    child = signed_by(client_of, body(make(signed_by(client_of, text)))["token"])
    grandchild = signed_by(client_of, body(make(child))["token"])
    assert grandchild.get("/api/v1/me").status_code == 200
    assert client_of(cast.alice).delete(f"/api/v1/tokens/{own.pk}").status_code == 204
    assert [c.get("/api/v1/me").status_code for c in (child, grandchild)] == [401, 401]


def test_deactivation_of_a_person_records_the_tokens_of_others_that_end(
    cast: Cast, client_of: Clients
) -> None:
    """The record of the deactivation does not tell them: they are of service accounts."""
    admin = client_of(cast.admin)
    admin.post("/api/v1/users", {"username": "robot", "is_service": True}, format="json")
    roles.bind(actor=cast.admin, user="bob", role="administrator")
    _, text = token_create(user=cast.bob, name="ci", lifetime=timedelta(hours=1))
    robots = body(make(signed_by(client_of, text), user="robot", name="deploy"))
    own = body(make(signed_by(client_of, text)))
    admin.patch(f"/api/v1/users/{cast.bob.pk}", {"is_active": False}, format="json")
    assert not ApiToken.objects.filter(pk__in=[robots["id"], own["id"]]).exists()
    (record,) = AuditRecord.objects.filter(action="users_partial_update", object_kind="token")
    assert (record.object_id, record.object_name, record.actor) == (
        UUID(robots["id"]),
        "deploy",
        "admin",
    )
    assert record.before["user_id"] == str(User.objects.get(username="robot").pk)


def test_token_of_a_sign_in_makes_tokens_that_outlive_it(cast: Cast, client_of: Clients) -> None:
    own, text = token_create(
        user=cast.alice, name="login", lifetime=timedelta(hours=1), is_sign_in=True
    )
    made = body(make(signed_by(client_of, text), lifetime_seconds=86400))
    own.delete()
    assert signed_by(client_of, made["token"]).get("/api/v1/me").status_code == 200


def test_text_of_a_token_is_not_stored_with_a_bulk_request(cast: Cast, client_of: Clients) -> None:
    operation = {"method": "POST", "path": "tokens", "body": {"name": "x"}}
    for atomic in (True, False):
        client_of(cast.alice).post(
            "/api/v1/bulk",
            {"atomic": atomic, "operations": [operation]},
            format="json",
            headers={"Idempotency-Key": f"key {atomic}"},
        )
    assert "bb_" not in str([k.answer for k in IdempotencyKey.objects.all()])


def test_number_of_tokens_of_a_user_is_limited(
    cast: Cast, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_TOKENS", 3)
    alice = client_of(cast.alice)
    assert [make(alice).status_code for _ in range(3)] == [201, 201, 409]
    ApiToken.objects.filter(name="ci").update(expires_at="2020-01-01T00:00Z")
    assert make(alice).status_code == 201, "ended tokens do not count"
    assert make(client_of(cast.bob)).status_code == 201


def test_one_time_password_makes_no_tokens(cast: Cast, client_of: Clients) -> None:
    User.objects.filter(pk=cast.alice.pk).update(must_change_password=True)
    refused = make(client_of(cast.alice))
    assert (refused.status_code, body(refused)["code"]) == (403, "password_change_required")
