"""Sign-in of devices by a code: approval, limits, and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from rest_framework.test import APIClient

from appliance.accounts.models import ApiToken, User
from appliance.accounts.services import token_create
from appliance.accounts.users import user_update
from appliance.audit.models import AuditRecord
from appliance.signin import device_logins
from appliance.signin.models import DeviceLogin
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def forget_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_logins, "MIN_POLL_SECONDS", 0.0)
    for entries in (device_logins._wrong, device_logins._polled):
        entries._entries.clear()


def client_with(text: str) -> Any:
    return APIClient(headers={"Authorization": f"Bearer {text}"})


def signed_in(user: User, **limits: Any) -> Any:
    return client_with(token_create(user=user, name="console", is_sign_in=True, **limits)[1])


def post(path: str, caller: Any = None, /, **content: Any) -> Any:
    return (caller or APIClient()).post(f"/api/v1/{path}", content, format="json")


def begin() -> dict[str, Any]:
    response = post("device-logins", client="workstation")
    assert response.status_code == 201
    return dict(body(response))


def take(begun: dict[str, Any]) -> Any:
    return post("device-logins/token", device_code=begun["device_code"])


def test_device_gets_a_token_of_the_user_who_approves_once(cast: Cast) -> None:
    begun, alice = begin(), signed_in(cast.alice)
    pending = take(begun)
    assert pending.status_code == 409 and pending["Retry-After"] == "5"
    typed = begun["code"].lower().replace("-", " ")
    shown = body(alice.get(f"/api/v1/device-logins/{typed}"))
    assert shown["client"] == "workstation" and shown["address"] == "127.0.0.1"
    assert begun["device_code"] not in str(shown)
    assert post(f"device-logins/{begun['code']}/approve", alice).status_code == 200
    taken = body(take(begun))
    assert taken["username"] == "alice" and take(begun).status_code == 410
    me = client_with(taken["token"]).get("/api/v1/me")
    assert body(me)["username"] == "alice"
    record = AuditRecord.objects.get(action="device_logins_approve_create")
    assert record.actor == "alice" and record.after["address"] == "127.0.0.1"


def test_denied_device_gets_nothing(cast: Cast) -> None:
    begun, alice = begin(), signed_in(cast.alice)
    assert post(f"device-logins/{begun['code']}/deny", alice).status_code == 200
    assert post(f"device-logins/{begun['code']}/approve", alice).status_code == 404
    assert take(begun).status_code == 403 and take(begun).status_code == 410


def test_second_user_cannot_take_over_an_approval(cast: Cast) -> None:
    begun = begin()
    assert post(f"device-logins/{begun['code']}/approve", signed_in(cast.alice)).status_code == 200
    assert post(f"device-logins/{begun['code']}/approve", signed_in(cast.bob)).status_code == 404
    assert body(take(begun))["username"] == "alice"


def test_token_has_the_limits_and_the_age_of_the_approving_one(cast: Cast) -> None:
    proved_at = timezone.now() - timedelta(hours=3)
    limits = {"scopes": ["account.self", "inventory.view"], "networks": ["127.0.0.0/8"]}
    begun, alice = begin(), signed_in(cast.alice, signed_in_at=proved_at, **limits)
    post(f"device-logins/{begun['code']}/approve", alice)
    made = ApiToken.objects.get(pk=body(take(begun))["token"][3:35])
    assert made.scopes == limits["scopes"] and made.networks == limits["networks"]
    assert made.signed_in_at == proved_at, "an approval is no fresh sign-in"


def test_token_that_a_program_approves_ends_with_the_program(cast: Cast) -> None:
    row, text = token_create(user=cast.alice, name="ci", lifetime=timedelta(days=2))
    begun = begin()
    assert post(f"device-logins/{begun['code']}/approve", client_with(text)).status_code == 200
    made = ApiToken.objects.get(pk=body(take(begun))["token"][3:35])
    assert not made.is_sign_in and made.made_with == row and made.expires_at == row.expires_at


@pytest.mark.parametrize("end", ["expiry", "sign-out", "password", "inactive", "return"])
def test_approval_ends_with(cast: Cast, end: str) -> None:
    begun, alice = begin(), signed_in(cast.alice)
    post(f"device-logins/{begun['code']}/approve", alice)
    if end == "expiry":
        DeviceLogin.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif end == "sign-out":
        assert alice.delete("/api/v1/browser-login").status_code == 204
    elif end == "password":
        User.objects.filter(pk=cast.alice.pk).update(password="another")
    elif end == "return":
        for is_active in (False, True):
            user_update(user_id=cast.alice.pk, actor=cast.admin, is_active=is_active)
    else:
        User.objects.filter(pk=cast.alice.pk).update(is_active=False)
    assert take(begun).status_code == 410


def test_user_without_required_second_factor_approves_nothing(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = begin()
    monkeypatch.setattr(settings.ENVIRONMENT, "second_factor", "required")
    refused = post(f"device-logins/{begun['code']}/approve", signed_in(cast.alice))
    assert refused.status_code == 403 and take(begun).status_code == 409


def test_token_without_scope_account_self_approves_nothing(cast: Cast) -> None:
    begun = begin()
    client = client_with(token_create(user=cast.alice, name="ci", scopes=["inventory.view"])[1])
    assert post(f"device-logins/{begun['code']}/approve", client).status_code == 403
    assert client.get(f"/api/v1/device-logins/{begun['code']}").status_code == 403


def test_number_of_waiting_devices_is_limited_by_address_and_in_total(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(device_logins.MAX_PENDING_PER_NETWORK):
        begin()
    assert post("device-logins").status_code == 429
    elsewhere = APIClient(REMOTE_ADDR="192.0.2.1")
    assert post("device-logins", elsewhere).status_code == 201
    monkeypatch.setattr(device_logins, "MAX_PENDING", 11)
    assert post("device-logins", APIClient(REMOTE_ADDR="192.0.2.2")).status_code == 503
    DeviceLogin.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    begin()


def test_wrong_codes_of_a_user_are_limited(cast: Cast) -> None:
    begun, mallory = begin(), signed_in(cast.bob)
    for _ in range(device_logins.MAX_WRONG_CODES):
        assert mallory.get("/api/v1/device-logins/BBBB-BBBB").status_code == 404
    assert mallory.get(f"/api/v1/device-logins/{begun['code']}").status_code == 429
    assert post(f"device-logins/{begun['code']}/approve", mallory).status_code == 429
    assert post(f"device-logins/{begun['code']}/approve", signed_in(cast.alice)).status_code == 200


def test_polls_in_quick_succession_are_refused(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_logins, "MIN_POLL_SECONDS", 600.0)
    begun = begin()
    assert [take(begun).status_code for _ in range(3)] == [409, 429, 429]


@pytest.mark.parametrize("text", ["", "x", "0" * 32, f"{'0' * 32}.secret"])
def test_unknown_device_code_is_refused(cast: Cast, text: str) -> None:
    begun = begin()
    assert post("device-logins/token", device_code=text).status_code in (400, 410)
    wrong = begun["device_code"][:33] + "wrong"
    assert post("device-logins/token", device_code=wrong).status_code == 410
