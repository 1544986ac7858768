"""Passkeys: as the second factor, as the whole sign-in, and attempts to get around them."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.utils import timezone
from fido2.utils import websafe_decode, websafe_encode
from rest_framework.test import APIClient

from appliance.accounts.models import ApiToken, User
from appliance.accounts.services import store_password, token_create
from appliance.audit.models import AuditRecord
from appliance.runtime import live_settings
from appliance.runtime.setting_sections import SignInSettings
from appliance.signin import passkey_protocol, passkeys, second_factors, totp
from appliance.signin.models import Passkey, UsedChallenge
from tests.appliance.conftest import Cast, body
from tests.appliance.soft_passkey import PRESENT, Device

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery staple"
DOMAIN = "busbar.example.org"
ORIGIN = f"https://{DOMAIN}"


@pytest.fixture(autouse=True)
def trusted_name(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    set_policy("optional")


def set_policy(name: Any, domain: str = DOMAIN) -> None:
    live_settings.replace(
        {SignInSettings: SignInSettings(second_factor=name, passkey_domain=domain)}
    )


def browser(user: User | None = None) -> Any:
    """Return a client that sends the Origin of the console, with a sign-in just now."""
    headers = {"Origin": ORIGIN, "Host": DOMAIN}
    if user is not None:
        text = token_create(user=user, name="login", is_sign_in=True)[1]
        headers["Authorization"] = f"Bearer {text}"
    return APIClient(headers=headers)


def post(client: Any, path: str, content: Any = None) -> Any:
    return client.post(f"/api/v1/{path}", content or {}, format="json", secure=True)


def add(user: User, device: Device, name: str = "laptop", client: Any = None) -> Any:
    client = client or browser(user)
    options = body(post(client, "passkeys/options"))["options"]
    content = {"name": name, "credential": device.create(options)}
    return post(client, "passkeys", content)


@pytest.fixture
def alice(cast: Cast) -> User:
    store_password(user=cast.alice, encoded=make_password(PASSWORD), expires_at=None)
    return cast.alice


@pytest.fixture
def device(alice: User) -> Device:
    """A device with a passkey of alice."""
    made = Device(ORIGIN)
    response = add(alice, made)
    assert response.status_code == 201 and len(body(response)["recovery_codes"]) == 10
    alice.refresh_from_db()
    return made


def log_in(**fields: Any) -> Any:
    content = {"username": "alice", "password": PASSWORD} | fields
    return post(browser(), "browser-login", content)


def login_options() -> Any:
    refused = body(log_in())
    assert refused["code"] == "second_factor_required"
    return refused["passkey_options"]


def sign_in_options() -> Any:
    return body(browser().get("/api/v1/passkey-logins/options", secure=True))["options"]


def sign_in(credential: Any) -> Any:
    return post(browser(), "passkey-logins", {"credential": credential})


class TestUse:
    def test_passkey_is_the_second_factor_of_a_password(self, device: Device) -> None:
        response = log_in(passkey=device.get(login_options()))
        assert response.status_code == 200 and body(response)["username"] == "alice"
        assert Passkey.objects.get().last_used_at is not None

    def test_passkey_alone_signs_in(self, device: Device) -> None:
        response = sign_in(device.get(sign_in_options()))
        assert response.status_code == 200 and response.cookies["__Host-busbar"].value
        record = AuditRecord.objects.filter(action="passkey_logins_create").latest("created_at")
        assert record.actor == "alice"

    def test_recovery_code_replaces_a_lost_device(self, cast: Cast, alice: User) -> None:
        codes = body(add(alice, Device(ORIGIN)))["recovery_codes"]
        assert log_in(code=codes[0]).status_code == 200
        assert log_in(code=codes[0]).status_code == 401

    def test_repeated_request_returns_the_same_recovery_codes(self, alice: User) -> None:
        client, path = browser(alice), "/api/v1/passkeys"
        options = body(post(client, "passkeys/options"))["options"]
        content = {"name": "laptop", "credential": Device(ORIGIN).create(options)}
        options = {"format": "json", "secure": True, "HTTP_IDEMPOTENCY_KEY": "k"}
        first, again = (client.post(path, content, **options) for _ in range(2))
        assert (first.status_code, len(body(first)["recovery_codes"])) == (201, 10)
        assert (again.status_code, body(again)) == (201, body(first))

    def test_first_passkey_ends_the_other_sign_ins(self, alice: User) -> None:
        before, client = browser(alice), browser(alice)
        assert add(alice, Device(ORIGIN), client=client).status_code == 201
        assert before.get("/api/v1/me").status_code == 401
        assert client.get("/api/v1/me").status_code == 200
        again = add(alice, Device(ORIGIN), "phone", client)
        assert again.status_code == 201 and body(again)["recovery_codes"] == []

    def test_passkeys_are_listed_renamed_and_removed(self, alice: User, device: Device) -> None:
        client = browser(alice)
        row = body(client.get("/api/v1/passkeys"))["items"][0]
        assert row["name"] == "laptop" and set(row) == {"id", "name", "created_at", "last_used_at"}
        path = f"/api/v1/passkeys/{row['id']}"
        renamed = client.patch(path, {"name": "old laptop"}, format="json")
        assert body(renamed)["name"] == "old laptop"
        assert body(client.patch(path, {}, format="json"))["name"] == "old laptop"
        assert client.delete(path).status_code == 204
        assert log_in().status_code == 200, "no second factor is left"
        verbs = AuditRecord.objects.filter(object_kind="passkey").values_list("action", flat=True)
        assert set(verbs) == {"passkeys_create", "passkeys_partial_update", "passkeys_destroy"}

    def test_app_and_passkey_stand_beside_each_other(self, alice: User, device: Device) -> None:
        secret = second_factors.begin(user=alice)
        step = int(time.time()) // totp.STEP_SECONDS
        assert second_factors.confirm(user=alice, code=totp.code_at(secret, step))
        client = browser(alice)
        assert body(client.get("/api/v1/second-factor"))["has_app"]
        assert client.delete(f"/api/v1/passkeys/{Passkey.objects.get().pk}").status_code == 204
        assert log_in(code=totp.code_at(secret, step + 1)).status_code == 200


class TestPolicy:
    def test_required_factor_is_met_by_a_passkey_and_its_last_one_stays(
        self, alice: User, device: Device
    ) -> None:
        set_policy("required")
        client = browser(alice)
        assert client.get("/api/v1/allocations").status_code == 200
        refused = client.delete(f"/api/v1/passkeys/{Passkey.objects.get().pk}")
        assert body(refused)["code"] == "conflict"
        assert client.delete("/api/v1/second-factor").status_code == 409

    def test_password_alone_is_not_enough_on_any_path(self, device: Device) -> None:
        for path in ("login", "browser-login"):
            content = {"username": "alice", "password": PASSWORD}
            for more in ({}, {"new_password": "another horse battery"}):
                assert body(post(browser(), path, content | more))["code"] == (
                    "second_factor_required"
                )
        assert log_in(code="000000").status_code == 401, "there is no app to compare with"
        assert log_in(code="").status_code in (400, 401)
        malformed: list[Any] = [{}, {"id": "x"}, {"response": []}]
        for odd in malformed:
            assert log_in(passkey=odd).status_code in (400, 401)

    def test_passkeys_need_a_trusted_name(self, alice: User, device: Device) -> None:
        options = sign_in_options()
        set_policy("optional", domain="")
        refused = post(browser(alice), "passkeys/options")
        assert refused.status_code == 409 and "sign_in.passkey_domain" in body(refused)["detail"]
        assert browser().get("/api/v1/passkey-logins/options", secure=True).status_code == 409
        assert sign_in(device.get(options)).status_code == 409
        assert "passkey_options" not in body(log_in())

    @pytest.mark.parametrize("name", ["127.0.0.1", "::1", "Busbar.example.org", "a..b", "x.1"])
    def test_addresses_are_no_trusted_names(self, cast: Cast, name: str) -> None:
        client = browser(cast.admin)
        content = {"sign_in": {"passkey_domain": name}}
        refused = client.patch("/api/v1/settings", content, format="json")
        assert refused.status_code == 400 and "domain name" in refused.content.decode()

    def test_factors_that_are_turned_off_turn_passkeys_off(self, device: Device) -> None:
        options = sign_in_options()
        set_policy("off")
        assert sign_in(device.get(options)).status_code == 409

    def test_one_time_password_comes_first(self, alice: User, device: Device) -> None:
        future = timezone.now() + timedelta(hours=1)
        store_password(user=alice, encoded=make_password(PASSWORD), expires_at=future)
        refused = sign_in(device.get(sign_in_options()))
        assert body(refused)["code"] == "password_change_required"

    def test_adding_and_removing_need_a_fresh_sign_in(self, alice: User, device: Device) -> None:
        text = token_create(user=alice, name="ci")[1]
        client = APIClient(headers={"Authorization": f"Bearer {text}", "Host": DOMAIN})
        for response in (
            post(client, "passkeys/options"),
            post(client, "passkeys", {"name": "x", "credential": {"id": "x"}}),
            client.delete(f"/api/v1/passkeys/{Passkey.objects.get().pk}"),
        ):
            assert body(response)["code"] == "fresh_sign_in_required"

    def test_reset_by_an_administrator_removes_passkeys(
        self, cast: Cast, alice: User, device: Device
    ) -> None:
        client = browser(cast.admin)
        assert client.delete(f"/api/v1/users/{alice.pk}/second-factor").status_code == 204
        assert not Passkey.objects.exists()
        assert sign_in(device.get(sign_in_options())).status_code == 401


class TestAttacks:
    def test_answer_is_accepted_once(self, device: Device) -> None:
        answer = device.get(sign_in_options())
        assert sign_in(answer).status_code == 200
        again = sign_in(answer)
        assert again.status_code == 401 and body(again)["reason"] == "challenge used before"

    def test_registration_is_accepted_once(self, alice: User) -> None:
        client = browser(alice)
        answer = Device(ORIGIN).create(body(post(client, "passkeys/options"))["options"])
        content = {"name": "x", "credential": answer}
        assert post(client, "passkeys", content).status_code == 201
        client.delete(f"/api/v1/passkeys/{Passkey.objects.get().pk}")
        assert post(client, "passkeys", content).status_code == 400

    def test_challenges_hold_for_their_purpose_user_and_time(
        self, cast: Cast, device: Device, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store_password(user=cast.bob, encoded=make_password(PASSWORD), expires_at=None)
        bobs = Device(ORIGIN)
        assert add(cast.bob, bobs).status_code == 201
        of_bob = body(post(browser(), "login", {"username": "bob", "password": PASSWORD}))
        assert log_in(passkey=device.get(of_bob["passkey_options"])).status_code == 401
        assert log_in(passkey=device.get(sign_in_options())).status_code == 401
        assert sign_in(device.get(login_options())).status_code == 401
        invented = sign_in_options() | {"challenge": websafe_encode(b"x" * 60)}
        assert sign_in(device.get(invented)).status_code == 401
        late = sign_in_options()
        monkeypatch.setattr(passkey_protocol, "LIFETIME", timedelta(seconds=-1))
        assert sign_in(device.get(late)).status_code == 401

    def test_passkey_of_another_user_is_no_second_factor(self, cast: Cast, device: Device) -> None:
        bobs = Device(ORIGIN)
        assert add(cast.bob, bobs).status_code == 201
        assert log_in(passkey=bobs.get(login_options())).status_code == 401
        impostor = Device(ORIGIN, credential_id=device.credential_id)
        assert sign_in(impostor.get(sign_in_options())).status_code == 401
        taken = add(cast.bob, impostor, "stolen id")
        assert taken.status_code == 409, "the id belongs to alice"

    def test_passkey_of_another_is_not_listed_renamed_or_removed(
        self, cast: Cast, device: Device
    ) -> None:
        client, path = browser(cast.bob), f"/api/v1/passkeys/{Passkey.objects.get().pk}"
        assert body(client.get("/api/v1/passkeys"))["items"] == []
        assert client.get(path).status_code == 404
        assert client.patch(path, {"name": "mine"}, format="json").status_code == 404
        assert client.delete(path).status_code == 404

    @pytest.mark.parametrize(
        "origin",
        [
            f"http://{DOMAIN}",
            "https://example.org",
            f"https://{DOMAIN}.evil.org",
            f"https://evil{DOMAIN}",
            "https://127.0.0.1",
            "null",
            "",
        ],
    )
    def test_other_origins_are_refused(self, alice: User, device: Device, origin: str) -> None:
        device.origin = origin
        assert sign_in(device.get(sign_in_options())).status_code == 401
        assert add(alice, Device(origin)).status_code == 400

    def test_other_relying_party_is_refused(self, device: Device) -> None:
        assert sign_in(device.get(sign_in_options() | {"rpId": "evil.org"})).status_code == 401

    def test_request_of_another_page_is_refused(self, device: Device) -> None:
        client = APIClient(headers={"Origin": "https://evil.org", "Host": DOMAIN})
        content = {"credential": device.get(sign_in_options())}
        assert post(client, "passkey-logins", content).status_code == 403

    def test_device_must_ask_for_pin_or_biometrics(self, alice: User, device: Device) -> None:
        device.flags = PRESENT
        assert sign_in(device.get(sign_in_options())).status_code == 401
        assert log_in(passkey=device.get(login_options())).status_code == 401
        assert add(alice, Device(ORIGIN, flags=PRESENT)).status_code == 400

    def test_counter_must_grow(self, device: Device) -> None:
        device.count = 5
        assert sign_in(device.get(sign_in_options())).status_code == 200
        for count in (5, 4, 0):
            device.count = count
            refused = sign_in(device.get(sign_in_options()))
            assert body(refused)["reason"] == "counter of a copied device"
        device.count = 6
        assert sign_in(device.get(sign_in_options())).status_code == 200

    def test_changed_answers_are_refused(self, device: Device) -> None:
        for name in ("signature", "authenticatorData", "clientDataJSON"):
            answer = device.get(sign_in_options())
            content = bytearray(websafe_decode(answer["response"][name]))
            content[-1] ^= 1
            answer["response"][name] = websafe_encode(bytes(content))
            assert sign_in(answer).status_code == 401, name
        assert UsedChallenge.objects.count() == 1, "that of the registration"

    @pytest.mark.parametrize(
        ("part", "content"),
        [
            ("clientDataJSON", b"[" * 5000),
            ("authenticatorData", bytes(32) + b"\x81" + bytes(4) + b"\x81" * 5000),
            ("authenticatorData", bytes(32) + b"\x81" + bytes(4)),
            ("authenticatorData", bytes(32) + b"\x81" + bytes(4) + b"\x9b" + b"\xff" * 8),
        ],
        ids=["nested-json", "nested-cbor", "cut", "long"],
    )
    def test_malformed_answer_of_a_stranger_is_refused(
        self, device: Device, part: str, content: bytes
    ) -> None:
        answer = device.get(sign_in_options())
        answer["response"][part] = websafe_encode(content)
        assert sign_in(answer).status_code == 401

    def test_malformed_registration_is_refused(self, alice: User) -> None:
        client = browser(alice)
        answer = Device(ORIGIN).create(body(post(client, "passkeys/options"))["options"])
        answer["response"]["attestationObject"] = websafe_encode(b"\x81" * 5000)
        content = {"name": "x", "credential": answer}
        assert post(client, "passkeys", content).status_code == 400

    def test_sign_in_ends_with_factors_that_are_removed_before_its_token(
        self, alice: User, device: Device, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A thief signs in with the device in the moment in which an administrator resets it."""
        proved = passkeys.attempt

        def attempt(*args: Any) -> User:
            user = proved(*args)
            second_factors.reset_on_machine(user=User.objects.get(pk=alice.pk))
            return user

        monkeypatch.setattr(passkeys, "attempt", attempt)
        assert sign_in(device.get(sign_in_options())).status_code == 401
        assert not ApiToken.objects.filter(user=alice, is_sign_in=True).exists()

    def test_registration_is_no_assertion(self, device: Device) -> None:
        answer = device.create({"rp": {"id": DOMAIN}, **sign_in_options()})
        assert sign_in(answer).status_code == 401

    def test_inactive_user_is_refused(self, alice: User, device: Device) -> None:
        User.objects.filter(pk=alice.pk).update(is_active=False)
        assert sign_in(device.get(sign_in_options())).status_code == 401

    def test_key_is_never_shown(self, alice: User, device: Device) -> None:
        secrets = (Passkey.objects.get().credential_data, websafe_encode(device.credential_id))
        texts = [f"{r.before}{r.after}" for r in AuditRecord.objects.all()]
        texts.append(browser(alice).get("/api/v1/passkeys").content.decode())
        assert not [s for s in secrets for text in texts if s in text]
