"""Actions that depend on the token and the sign-in of the caller, beside the roles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from rest_framework.test import APIClient

from appliance.accounts import actions
from appliance.accounts.action_views import ActionView
from appliance.accounts.models import ApiToken, CustomRole, User
from appliance.accounts.services import token_create
from appliance.signin.models import Passkey
from tests.appliance.conftest import Cast, body

pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


def client_with(user: User, **options: Any) -> tuple[APIClient, ApiToken]:
    token, text = token_create(user=user, name="ci", **options)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client, token


def action_of(client: APIClient, path: str, name: str) -> dict[str, Any]:
    listed = body(client.get(f"/api/v1/{path}"))["actions"]
    return next(action for action in listed if action["name"] == name)


def test_token_without_scope_account_self_revokes_only_itself(cast: Cast) -> None:
    client, token = client_with(cast.alice, scopes=["pools.view"])
    other, _ = token_create(user=cast.alice, name="other")
    assert action_of(client, f"tokens/{token.pk}", "revoke")["allowed"]
    answer = client.post("/api/v1/actions", {"objects": [f"tokens/{other.pk}"]}, format="json")
    assert body(answer)["items"][0]["actions"] is None
    assert client.delete(f"/api/v1/tokens/{other.pk}").status_code == 404
    assert client.delete(f"/api/v1/tokens/{token.pk}").status_code == 204


def test_administrators_token_without_scope_account_self_is_refused_the_owners_others(
    cast: Cast,
) -> None:
    client, token = client_with(cast.admin, scopes=["accounts.manage"])
    other, _ = token_create(user=cast.admin, name="other")
    assert action_of(client, f"tokens/{token.pk}", "revoke")["allowed"]
    refused = action_of(client, f"tokens/{other.pk}", "revoke")
    assert not refused["allowed"]
    assert refused["reason"] == body(client.delete(f"/api/v1/tokens/{other.pk}"))["detail"]


@pytest.mark.parametrize("missing", ["password", "second factor"])
def test_incomplete_sign_in_refuses_actions_with_what_is_missing(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    role = CustomRole.objects.create(name="reader", privileges=["pools.view"])
    if missing == "password":
        User.objects.filter(pk=cast.admin.pk).update(must_change_password=True)
    else:
        monkeypatch.setattr(settings.ENVIRONMENT, "second_factor", "required")
    client, token = client_with(User.objects.get(pk=cast.admin.pk))
    refused = action_of(client, f"roles/{role.pk}", "delete")
    assert missing in refused["reason"]
    assert refused["reason"] == body(client.delete(f"/api/v1/roles/{role.pk}"))["detail"]
    assert action_of(client, f"tokens/{token.pk}", "revoke")["allowed"]
    assert client.delete(f"/api/v1/tokens/{token.pk}").status_code == 204


def test_last_passkey_stays_where_the_policy_requires_one(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings.ENVIRONMENT, "second_factor", "required")
    User.objects.filter(pk=cast.alice.pk).update(second_factor_since="2026-01-01T00:00:00Z")
    one = Passkey.objects.create(user=cast.alice, name="laptop", credential_id="1")
    client, _ = client_with(User.objects.get(pk=cast.alice.pk), is_sign_in=True)
    refused = action_of(client, f"passkeys/{one.pk}", "delete")
    assert refused["reason"] == body(client.delete(f"/api/v1/passkeys/{one.pk}"))["detail"]
    Passkey.objects.create(user=cast.alice, name="phone", credential_id="2")
    assert action_of(client, f"passkeys/{one.pk}", "delete")["allowed"]
    assert client.delete(f"/api/v1/passkeys/{one.pk}").status_code == 204


def test_description_of_the_query_names_every_kind() -> None:
    words = (ActionView.post.__doc__ or "").replace(",", " ").replace(".", " ").split()
    assert set(actions.kinds()) <= set(words)


def test_guide_lists_the_actions_of_every_kind() -> None:
    text = (Path(settings.BASE_DIR) / "docs" / "guides" / "people.md").read_text()
    rows = [line.split("|")[1:3] for line in text.partition("| Objects |")[2].splitlines()]
    listed = {
        (kind, name)
        for row in rows
        if len(row) == 2
        for kind in re.findall("`([a-z-]+)`", row[0])
        for name in re.findall("`([a-z_]+)`", row[1])
    }
    assert listed == {(k, a.name) for k in actions.kinds() for a in actions._kinds[k].actions}
