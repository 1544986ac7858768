"""Second factors: sign-in with codes, policies, and every way around a missing one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import pytest
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.utils import timezone
from rest_framework.test import APIClient

from appliance.accounts.authentication import CONSOLE_COOKIE
from appliance.accounts.models import ApiToken, User
from appliance.accounts.services import store_password, token_create
from appliance.activity.consumers import authenticate_all, identify
from appliance.audit.models import AuditRecord
from appliance.signin import second_factors, totp
from appliance.signin.models import SecondFactor
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
Setting = Literal["off", "optional", "privileged", "required"]
pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery staple"
ORIGIN = "https://testserver"


@pytest.fixture(autouse=True)
def passwords(cast: Cast, settings: Any) -> None:
    """Give some people a password, with a hash that takes no time."""
    hashers = "django.contrib.auth.hashers"
    settings.PASSWORD_HASHERS = [f"{hashers}.{n}PasswordHasher" for n in ("MD5", "Argon2")]
    encoded = make_password(PASSWORD)
    for user in (cast.alice, cast.olga, cast.admin):
        store_password(user=user, encoded=encoded, expires_at=None)


@pytest.fixture
def set_policy(monkeypatch: pytest.MonkeyPatch) -> Callable[[Setting], None]:
    return lambda value: monkeypatch.setattr(settings.ENVIRONMENT, "second_factor", value)


def present_step() -> int:
    return int(timezone.now().timestamp()) // totp.STEP_SECONDS


def log_in(username: str = "alice", path: str = "login", **fields: str) -> Any:
    client = APIClient(headers={"Origin": ORIGIN})
    content = {"username": username, "password": PASSWORD} | fields
    return client.post(f"/api/v1/{path}", content, format="json", secure=True)


def client_with(text: str) -> Any:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def signed_in(user: User) -> Any:
    return client_with(token_create(user=user, name="login", is_sign_in=True)[1])


def enrolled(user: User) -> tuple[bytes, list[str]]:
    """Give the user a second factor. Returns its secret and the recovery codes."""
    secret = second_factors.begin(user=user)
    codes = second_factors.confirm(user=user, code=totp.code_at(secret, present_step() - 1))
    assert codes is not None
    return secret, codes


def test_codes_are_those_of_rfc_6238() -> None:
    secret = b"12345678901234567890"
    for now, code in ((59, "287082"), (1111111109, "081804"), (20000000000, "353130")):
        assert totp.code_at(secret, now // totp.STEP_SECONDS) == code


@pytest.mark.parametrize(("offset", "accepted"), [(-2, False), (-1, True), (1, True), (2, False)])
def test_clock_of_an_app_may_be_wrong_by_one_step(offset: int, accepted: bool) -> None:
    secret, now = totp.new_secret(), 1_800_000_000
    code = totp.code_at(secret, now // totp.STEP_SECONDS + offset)
    assert (totp.matching_step(secret, code, now, 0) is not None) == accepted


@pytest.mark.parametrize("path", ["login", "browser-login"])
def test_login_needs_a_code_and_accepts_each_once(cast: Cast, path: str) -> None:
    secret, _ = enrolled(cast.alice)
    refused = log_in(path=path)
    assert refused.status_code == 401 and body(refused)["code"] == "second_factor_required"
    assert CONSOLE_COOKIE not in refused.cookies and not ApiToken.objects.exists()
    code = totp.code_at(secret, present_step())
    assert log_in(path=path, code=code).status_code == 200
    again = log_in(path=path, code=code)
    assert again.status_code == 401 and body(again)["code"] == "unauthenticated"
    assert ApiToken.objects.count() == 1


def test_code_without_the_password_is_refused_and_not_used_up(cast: Cast) -> None:
    secret, _ = enrolled(cast.alice)
    code = totp.code_at(secret, present_step())
    assert log_in(password="wrong", code=code).status_code == 401
    assert log_in(code=code).status_code == 200


def test_code_of_another_user_is_refused(cast: Cast) -> None:
    secret, codes = enrolled(cast.olga)
    enrolled(cast.alice)
    for code in (totp.code_at(secret, present_step()), codes[0]):
        assert log_in(code=code).status_code == 401


def test_recovery_code_works_once_however_it_is_typed(cast: Cast) -> None:
    _, codes = enrolled(cast.alice)
    assert log_in(code=f" {codes[3].upper().replace('-', ' ')} ").status_code == 200
    assert log_in(code=codes[3]).status_code == 401
    assert AuditRecord.objects.filter(after={"recovery_codes": 9}).exists()


def test_wrong_codes_are_delayed_more_and_more_also_for_right_ones(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, _ = enrolled(cast.alice)
    for _ in range(second_factors.FREE_FAILURES + 5):
        SecondFactor.objects.update(failed_at=timezone.now() - timedelta(hours=1))
        assert log_in(code="000000").status_code == 401
    delayed = log_in(code=totp.code_at(secret, present_step()))
    assert delayed.status_code == 429 and 25 < int(delayed["Retry-After"]) <= 32
    SecondFactor.objects.update(failures=1000)
    assert int(log_in(code="000000")["Retry-After"]) <= second_factors.MAX_DELAY_SECONDS
    SecondFactor.objects.update(failed_at=timezone.now() - timedelta(hours=1))
    assert log_in(code=totp.code_at(secret, present_step())).status_code == 200
    assert SecondFactor.objects.get().failures == 0


def test_one_time_password_is_replaced_together_with_the_code(cast: Cast) -> None:
    secret, _ = enrolled(cast.alice)
    User.objects.filter(pk=cast.alice.pk).update(must_change_password=True)
    assert body(log_in())["must_change_password"] is True
    code = totp.code_at(secret, present_step())
    refused = log_in(code=code)
    assert refused.status_code == 403 and body(refused)["code"] == "password_change_required"
    assert log_in(code=code, new_password="short").status_code == 400
    assert log_in(code=code, new_password="a longer one of my own").status_code == 200


def test_new_password_is_not_set_without_the_code(cast: Cast) -> None:
    enrolled(cast.alice)
    for fields in ({}, {"code": "000000"}):
        assert log_in(new_password="a longer one of my own", **fields).status_code == 401
    assert body(log_in())["code"] == "second_factor_required"  # the password is the old one


def test_reset_of_the_password_leaves_the_second_factor(cast: Cast, client_of: Clients) -> None:
    enrolled(cast.alice)
    reset = client_of(cast.admin).post(f"/api/v1/users/{cast.alice.pk}/reset-password")
    fields = {"password": body(reset)["one_time_password"], "new_password": "one of my own, long"}
    assert body(log_in(**fields))["code"] == "second_factor_required"


def test_secrets_are_unreadable_in_the_rows_and_in_rest(cast: Cast, client_of: Clients) -> None:
    secret, codes = enrolled(cast.alice)
    row = SecondFactor.objects.get()
    assert totp.base32(secret) not in row.secret and secret.hex() not in row.secret
    assert not any(code.replace("-", "") in str(row.recovery_sha256) for code in codes)
    admin = client_of(cast.admin)
    shown = admin.get("/api/v1/users").content + admin.get("/api/v1/audit").content
    shown += signed_in(cast.alice).get("/api/v1/second-factor").content
    for hidden in (totp.base32(secret), row.secret, *codes, *row.recovery_sha256):
        assert hidden not in shown.decode()


def test_secret_of_one_user_does_not_serve_another(cast: Cast) -> None:
    secret, _ = enrolled(cast.alice)
    enrolled(cast.olga)
    SecondFactor.objects.filter(user=cast.olga).update(
        secret=SecondFactor.objects.get(user=cast.alice).secret
    )
    assert log_in("olga", code=totp.code_at(secret, present_step())).status_code == 409


class TestPolicies:
    @pytest.mark.parametrize("path", ["login", "browser-login"])
    def test_required_factor_is_set_up_by_the_sign_in(
        self, cast: Cast, set_policy: Callable[[Setting], None], path: str
    ) -> None:
        set_policy("required")
        refused = log_in(path=path)
        assert refused.status_code == 403 and not ApiToken.objects.exists()
        secret = SecondFactor.objects.get().pending_secret
        assert secret and body(refused)["secret"] not in secret
        assert log_in(path=path, code="000000").status_code == 401
        opened = second_factors.opened(secret, cast.alice.pk)
        done = log_in(path=path, code=totp.code_at(opened, present_step()))
        assert done.status_code == 200 and len(body(done)["recovery_codes"]) == 10
        assert body(log_in(path=path))["code"] == "second_factor_required"

    @pytest.mark.parametrize(
        ("policy", "asked"),
        [
            ("off", ()),
            ("optional", ()),
            ("privileged", ("olga", "admin")),
            ("required", ("alice", "olga", "admin")),
        ],
    )
    def test_policy_names_who_needs_one(
        self, cast: Cast, set_policy: Callable[[Setting], None], policy: Setting, asked: Any
    ) -> None:
        set_policy(policy)
        for username in ("alice", "olga", "admin"):
            assert log_in(username).status_code == (403 if username in asked else 200)

    def test_policy_off_asks_nobody(
        self, cast: Cast, set_policy: Callable[[Setting], None]
    ) -> None:
        enrolled(cast.alice)
        set_policy("off")
        assert log_in().status_code == 200
        assert signed_in(cast.alice).post("/api/v1/second-factor").status_code == 409

    def test_tokens_have_no_privileges_while_a_required_factor_is_missing(
        self, cast: Cast, set_policy: Callable[[Setting], None]
    ) -> None:
        client = signed_in(cast.olga)
        program = token_create(user=cast.olga, name="program")[1]
        assert client.get("/api/v1/nodes").status_code == 200
        set_policy("privileged")
        for caller in (client, client_with(program)):
            refused = caller.get("/api/v1/nodes")
            assert refused.status_code == 403
            assert body(refused)["code"] == "second_factor_setup_required"
            assert body(caller.get("/api/v1/me"))["privileges"] == []
            made = caller.post("/api/v1/tokens", {"name": "x"}, format="json")
            assert made.status_code == 403
            inner = {"operations": [{"method": "GET", "path": "nodes"}]}
            result = body(caller.post("/api/v1/bulk", inner, format="json"))["results"][0]
            assert result["status"] == 403
        assert identify(program, "") is None and authenticate_all([program]) == {program: None}

    def test_change_of_the_setting_holds_at_once(self, cast: Cast, client_of: Clients) -> None:
        client, admin = signed_in(cast.olga), signed_in(cast.admin)
        enrolled(cast.admin)
        admin = signed_in(cast.admin)
        assert client.get("/api/v1/nodes").status_code == 200
        wanted = {"sign_in": {"second_factor": "required"}}
        assert admin.patch("/api/v1/settings", wanted, format="json").status_code == 200
        try:
            assert client.get("/api/v1/nodes").status_code == 403
            assert admin.get("/api/v1/nodes").status_code == 200
        finally:
            wanted["sign_in"]["second_factor"] = "optional"
            admin.patch("/api/v1/settings", wanted, format="json")
        assert client.get("/api/v1/nodes").status_code == 200

    def test_service_accounts_and_their_tokens_need_none(
        self, cast: Cast, client_of: Clients, set_policy: Callable[[Setting], None]
    ) -> None:
        service = User.objects.create(username="ci", password=make_password(None))
        program = client_with(token_create(user=service, name="ci")[1])
        set_policy("required")
        assert program.get("/api/v1/nodes").status_code == 403  # has no role
        assert body(program.get("/api/v1/nodes"))["code"] == "denied"

    def test_required_factor_cannot_be_removed(
        self, cast: Cast, set_policy: Callable[[Setting], None]
    ) -> None:
        enrolled(cast.alice)
        set_policy("required")
        assert signed_in(cast.alice).delete("/api/v1/second-factor").status_code == 409


class TestOwnFactor:
    def test_it_is_set_up_and_removed_with_a_fresh_sign_in(self, cast: Cast) -> None:
        client = signed_in(cast.alice)
        other = signed_in(cast.alice)
        begun = body(client.post("/api/v1/second-factor"))
        assert begun["uri"].startswith("otpauth://totp/Busbar") and "alice" in begun["uri"]
        secret = second_factors.opened(SecondFactor.objects.get().pending_secret, cast.alice.pk)
        assert totp.base32(secret) == begun["secret"]
        path = "/api/v1/second-factor/confirmation"
        assert client.post(path, {"code": "000000"}, format="json").status_code == 400
        code = totp.code_at(secret, present_step())
        confirmed = client.post(path, {"code": code}, format="json")
        assert len(body(confirmed)["recovery_codes"]) == 10
        assert other.get("/api/v1/me").status_code == 401, "a sign-in without it must end"
        assert body(client.get("/api/v1/second-factor"))["recovery_codes_left"] == 10
        renewed = client.post("/api/v1/second-factor/recovery-codes")
        assert not set(body(renewed)["recovery_codes"]) & set(body(confirmed)["recovery_codes"])
        assert log_in(code=body(confirmed)["recovery_codes"][0]).status_code == 401
        assert client.delete("/api/v1/second-factor").status_code == 204
        assert log_in().status_code == 200

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "second-factor"),
            ("DELETE", "second-factor"),
            ("POST", "second-factor/recovery-codes"),
        ],
    )
    def test_stolen_tokens_do_not_change_it(self, cast: Cast, method: str, path: str) -> None:
        enrolled(cast.alice)
        old = signed_in(cast.alice)
        ApiToken.objects.update(signed_in_at=timezone.now() - timedelta(minutes=11))
        program = client_with(token_create(user=cast.alice, name="ci")[1])
        for client in (old, program):
            refused = client.generic(method, f"/api/v1/{path}")
            assert refused.status_code == 403
            assert body(refused)["code"] == "fresh_sign_in_required"
        assert body(log_in())["code"] == "second_factor_required"

    def test_pending_secret_ends_after_a_quarter_of_an_hour(self, cast: Cast) -> None:
        secret = second_factors.begin(user=cast.alice)
        SecondFactor.objects.update(pending_since=timezone.now() - timedelta(minutes=16))
        response = signed_in(cast.alice).post(
            "/api/v1/second-factor/confirmation",
            {"code": totp.code_at(secret, present_step())},
            format="json",
        )
        assert response.status_code == 409 and log_in().status_code == 200


def test_administrator_removes_a_lost_factor_of_others_only(cast: Cast, client_of: Clients) -> None:
    enrolled(cast.alice)
    enrolled(cast.admin)
    client = signed_in(cast.alice)
    path = "/api/v1/users/{}/second-factor"
    assert client_of(cast.olga).delete(path.format(cast.alice.pk)).status_code == 403
    admin = client_of(cast.admin)
    assert admin.delete(path.format(cast.admin.pk)).status_code == 409
    assert admin.delete(path.format(cast.alice.pk)).status_code == 204
    assert client.get("/api/v1/me").status_code == 401 and log_in().status_code == 200
    assert admin.delete(path.format(cast.alice.pk)).status_code == 409
