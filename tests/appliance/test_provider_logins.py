"""Sign-in with an identity provider: the return, the account, and forged tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings
from rest_framework.test import APIClient

from appliance.accounts.authentication import CONSOLE_COOKIE
from appliance.accounts.models import ApiToken, GroupMember, Source, User
from appliance.audit.models import AuditRecord
from appliance.environment import OidcProvider
from appliance.signin import provider as exchanges
from appliance.signin import second_factors, totp
from appliance.signin.provider import ProviderRefusedError, ProviderUnavailableError
from appliance.signin.provider_logins import VISIT_COOKIE
from tests.appliance.conftest import Cast, body
from tests.appliance.identity_provider import PEOPLE, IdentityProvider, started

pytestmark = pytest.mark.django_db
ORIGIN = "https://testserver"
REDIRECT_URI = "https://testserver/sign-in"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdentityProvider]:
    with started(tmp_path_factory.mktemp("providers") / "right", REDIRECT_URI) as provider:
        yield provider


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, cast: Cast) -> Callable[[OidcProvider], None]:
    def use(provider: OidcProvider) -> None:
        exchanges._known.clear()
        monkeypatch.setattr(settings.ENVIRONMENT, "oidc_providers", (provider,))
        monkeypatch.setattr(settings.ENVIRONMENT, "public_url", ORIGIN)

    return use


@pytest.fixture
def provider(
    running: IdentityProvider, use: Callable[[OidcProvider], None]
) -> Iterator[IdentityProvider]:
    use(running.settings)
    yield running
    running.set_people(PEOPLE)


class Browser:
    def __init__(self) -> None:
        self.client = APIClient(headers={"Origin": ORIGIN})

    def post(self, path: str, **content: str) -> Any:
        return self.client.post(
            f"/api/v1/provider-logins{path}", content, format="json", secure=True
        )

    def begin(self) -> str:
        response = self.post("", provider="example")
        assert response.status_code == 200, response.content
        return str(body(response)["authorization_url"])

    def visit(self, provider: IdentityProvider, person: str) -> dict[str, str]:
        found = provider.sign_in(self.begin(), person)
        return {"authorization_code": found["code"], "state": found["state"]}

    def sign_in(self, provider: IdentityProvider, person: str, **fields: str) -> Any:
        return self.post("/return", **self.visit(provider, person), **fields)


def groups_of(username: str) -> set[str]:
    members = GroupMember.objects.filter(user__username=username)
    return set(members.values_list("group__name", flat=True))


def test_person_signs_in_and_has_an_account_with_groups(provider: IdentityProvider) -> None:
    browser = Browser()
    done = browser.sign_in(provider, "p-1")
    assert done.status_code == 200 and body(done)["username"] == "heidi", done.content
    cookie = done.cookies[CONSOLE_COOKIE]
    assert cookie["httponly"] and cookie["secure"] and cookie["samesite"] == "Strict"
    assert body(browser.client.get("/api/v1/me", secure=True))["source"] == "oidc"
    user = User.objects.get(source=Source.OIDC)
    assert not user.has_usable_password() and user.email == "heidi@example.org"
    assert (user.external_identity.issuer, user.external_identity.subject) == (
        provider.issuer,
        "p-1",
    )
    assert groups_of("heidi") == {"gpu-users"}
    token = ApiToken.objects.get(user=user)
    assert token.is_sign_in and token.name == "console"
    assert AuditRecord.objects.filter(object_kind="token", actor="heidi").exists()


def test_account_follows_issuer_and_subject_and_never_mail_or_name(
    provider: IdentityProvider, cast: Cast
) -> None:
    assert Browser().sign_in(provider, "p-1").status_code == 200
    provider.set_people({"p-1": {"preferred_username": "renamed"}, **dict([*PEOPLE.items()][1:])})
    assert body(Browser().sign_in(provider, "p-1"))["username"] == "heidi"
    assert groups_of("heidi") == set(), "the claim has no groups any more"
    assert body(Browser().sign_in(provider, "p-2"))["username"] == "ivan", "with heidi's address"
    refused = Browser().sign_in(provider, "p-3")
    assert refused.status_code == 409 and CONSOLE_COOKIE not in refused.cookies
    assert User.objects.get(username="admin").source == ""


def test_inactive_account_does_not_sign_in(provider: IdentityProvider) -> None:
    assert Browser().sign_in(provider, "p-1").status_code == 200
    User.objects.filter(username="heidi").update(is_active=False)
    assert Browser().sign_in(provider, "p-1").status_code == 401


def test_second_factor_is_asked_after_the_provider(provider: IdentityProvider) -> None:
    assert Browser().sign_in(provider, "p-1").status_code == 200
    user = User.objects.get(username="heidi")
    secret, step = second_factors.begin(user=user), int(time.time()) // totp.STEP_SECONDS
    assert second_factors.confirm(user=user, code=totp.code_at(secret, step - 1))
    browser = Browser()
    refused = browser.sign_in(provider, "p-1")
    assert body(refused)["code"] == "second_factor_required"
    assert CONSOLE_COOKIE not in refused.cookies
    wrong = browser.post("/return", code="000000")
    assert wrong.status_code == 401
    assert [(r.actor, r.code) for r in wrong.refusals] == [("heidi", "unauthenticated")]
    assert Browser().post("/return", code=totp.code_at(secret, step)).status_code == 410
    done = browser.post("/return", code=totp.code_at(secret, step))
    assert done.status_code == 200 and CONSOLE_COOKIE in done.cookies
    assert browser.post("/return", code=totp.code_at(secret, step + 1)).status_code == 410


def test_return_of_another_browser_or_visit_is_refused(provider: IdentityProvider) -> None:
    victim, mallory = Browser(), Browser()
    stolen = mallory.visit(provider, "p-2")
    assert victim.post("/return", **stolen).status_code == 410, "it has begun nothing"
    victim.begin()
    assert victim.post("/return", **stolen).status_code == 410, "the state is of another visit"
    own = parse_state(victim)
    refused = victim.post("/return", authorization_code=stolen["authorization_code"], state=own)
    assert refused.status_code == 401, "the verifier is of another visit"
    assert not User.objects.filter(source=Source.OIDC).exists()


def parse_state(browser: Browser) -> str:
    from django.core import signing

    cookie = browser.client.cookies[VISIT_COOKIE].value
    return str(signing.loads(cookie, salt=VISIT_COOKIE)["state"])


def test_code_works_once(provider: IdentityProvider) -> None:
    browser = Browser()
    found = browser.visit(provider, "p-1")
    visit = browser.client.cookies[VISIT_COOKIE].value
    assert browser.post("/return", **found).status_code == 200
    browser.client.cookies[VISIT_COOKIE] = visit
    assert browser.post("/return", **found).status_code == 401


def test_foreign_origin_begins_and_finishes_nothing(provider: IdentityProvider) -> None:
    foreign = APIClient(headers={"Origin": "https://elsewhere.example"})
    requests: dict[str, dict[str, str]] = {
        "provider-logins": {"provider": "example"},
        "provider-logins/return": {"authorization_code": "x", "state": "y"},
    }
    for path, content in requests.items():
        refused = foreign.post(f"/api/v1/{path}", content, format="json", secure=True)
        assert refused.status_code == 403


@pytest.mark.parametrize(("wrong_by", "status"), [(-100, 200), (100, 200), (-300, 401), (300, 401)])
def test_clock_of_the_provider_may_differ_by_two_minutes(
    tmp_path: Path, use: Callable[[OidcProvider], None], wrong_by: int, status: int
) -> None:
    with started(tmp_path / "wrong", REDIRECT_URI, wrong_by) as other:
        use(other.settings)
        assert Browser().sign_in(other, "p-1").status_code == status


def test_provider_that_is_down_is_told_and_not_asked_again_at_once(
    running: IdentityProvider,
    use: Callable[[OidcProvider], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def ask(_: OidcProvider, method: str, url: str) -> dict[str, Any]:
        asked.append(url)
        raise ProviderUnavailableError("it is down")

    monkeypatch.setattr(exchanges, "ask", ask)
    use(running.settings)
    refused = Browser().post("", provider="example")
    assert refused.status_code == 503 and body(refused)["code"] == "provider_unavailable"
    assert Browser().post("", provider="example").status_code == 503
    assert len(asked) == 1


def test_provider_that_ends_before_the_return_gives_no_access(
    use: Callable[[OidcProvider], None], tmp_path: Path
) -> None:
    with started(tmp_path / "ended", REDIRECT_URI) as other:
        use(other.settings)
        browser = Browser()
        found = browser.visit(other, "p-1")
        other.end()
        refused = browser.post("/return", **found)
    assert refused.status_code == 503 and body(refused)["code"] == "provider_unavailable"
    assert CONSOLE_COOKIE not in refused.cookies
    assert not User.objects.filter(source=Source.OIDC).exists()


@pytest.mark.parametrize("change", [{"ca": None}, {"issuer": "https://127.0.0.1:{port}/"}])
def test_provider_with_another_certificate_or_name_is_refused(
    running: IdentityProvider, use: Callable[[OidcProvider], None], change: dict[str, Any]
) -> None:
    values = {k: v.format(port=running.port) if v else v for k, v in change.items()}
    use(running.settings.model_copy(update=values))
    assert Browser().post("", provider="example").status_code == 503


def test_wrong_client_secret_is_refused(
    running: IdentityProvider, use: Callable[[OidcProvider], None], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("another")
    use(running.settings.model_copy(update={"client_secret_file": tmp_path / "secret"}))
    assert Browser().sign_in(running, "p-1").status_code == 401


class TestForgedTokens:
    """ID tokens that are signed by the right key and by others, with one claim changed."""

    KEY, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    @pytest.fixture
    def provider(self, running: IdentityProvider) -> OidcProvider:
        public = jwt.algorithms.ECAlgorithm.to_jwk(self.KEY.public_key(), as_dict=True)
        known = exchanges.known_of(running.settings)
        known.keys = jwt.PyJWKSet.from_dict({"keys": [public | {"kid": "k", "alg": "ES256"}]})
        known.keys_at = time.monotonic()
        return running.settings

    def claims(self, provider: OidcProvider, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        return {
            "iss": provider.issuer,
            "aud": "busbar",
            "sub": "p-1",
            "iat": now,
            "exp": now + 60,
            "nonce": "n",
        } | changes

    def encode(self, claims: dict[str, Any], key: Any = KEY, algorithm: str = "ES256") -> str:
        return jwt.encode(claims, key, algorithm, headers={"kid": "k"})

    def test_right_token_is_accepted(self, provider: OidcProvider) -> None:
        token = self.encode(self.claims(provider))
        assert exchanges.verified(provider, token, "n")["sub"] == "p-1"

    @pytest.mark.parametrize(
        "changes",
        [
            {"iss": "https://elsewhere.example"},
            {"aud": "another"},
            {"azp": "another", "aud": ["busbar", "another"]},
            {"nonce": "another"},
        ],
        ids=str,
    )
    def test_wrong_claim_is_refused(self, provider: OidcProvider, changes: dict[str, Any]) -> None:
        with pytest.raises(ProviderRefusedError):
            exchanges.verified(provider, self.encode(self.claims(provider, **changes)), "n")

    @pytest.mark.parametrize(("claim", "seconds"), [("exp", -3600), ("iat", 3600)])
    def test_expired_and_future_tokens_are_refused(
        self, provider: OidcProvider, claim: str, seconds: int
    ) -> None:
        claims = self.claims(provider, **{claim: int(time.time()) + seconds})
        with pytest.raises(ProviderRefusedError):
            exchanges.verified(provider, self.encode(claims), "n")

    @pytest.mark.parametrize("missing", ["iss", "aud", "sub", "exp", "iat", "nonce"])
    def test_missing_claim_is_refused(self, provider: OidcProvider, missing: str) -> None:
        claims = self.claims(provider)
        del claims[missing]
        with pytest.raises(ProviderRefusedError):
            exchanges.verified(provider, self.encode(claims), "n")

    def test_other_key_and_weak_algorithms_are_refused(self, provider: OidcProvider) -> None:
        claims = self.claims(provider)
        secret = "a shared secret that is long enough"
        for token in (
            self.encode(claims, self.OTHER),
            self.encode(claims, secret, "HS256"),
            jwt.encode(claims, "", "none", headers={"kid": "k"}),
            "",
            "x.y.z",
        ):
            with pytest.raises((ProviderRefusedError, ProviderUnavailableError)):
                exchanges.verified(provider, token, "n")
