"""Sign-in with an identity provider: begin, and the account of the person who comes back.

What must survive the visit at the provider lies in a signed cookie of the browser that began, so
the return can neither be forged nor finished by another browser.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.core import signing

from appliance.accounts.authentication import hash_secret
from appliance.accounts.models import Source, User
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction
from appliance.environment import OidcProvider
from appliance.signin import provider as exchanges
from appliance.signin.external_accounts import new_identity, set_groups
from appliance.signin.models import ExternalIdentity
from appliance.signin.provider import ProviderRefusedError, ProviderUnavailableError

log = logging.getLogger(__name__)

VISIT_COOKIE, PROVED_COOKIE = "__Host-busbar-visit", "__Host-busbar-proved"
VISIT_SECONDS, PROVED_SECONDS = 600, 600
MULTIPLE_FACTORS = "mfa"
"""Value of the claim `amr` (RFC 8176) of a sign-in with several factors."""


@dataclass(frozen=True)
class Visit:
    """A sign-in that has begun and waits for the return from the provider."""

    provider: str
    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True)
class Proved:
    """A person whom the provider has identified, before the second factor."""

    user: str
    password_sha256: str
    has_second_factor: bool
    """The provider has asked for one, and the settings trust it."""


def begin(provider_id: str) -> tuple[str, str]:
    """Return the address to visit, and the value of VISIT_COOKIE.

    Raises ApplianceError NOT_FOUND, PROVIDER_UNAVAILABLE.
    """
    provider = configured(provider_id)
    visit = Visit(provider.id, *(secrets.token_urlsafe(32) for _ in range(3)))
    challenge = hashlib.sha256(visit.verifier.encode()).digest()
    try:
        url = exchanges.authorization_url(
            provider,
            state=visit.state,
            nonce=visit.nonce,
            challenge=base64.urlsafe_b64encode(challenge).decode().rstrip("="),
        )
    except ProviderUnavailableError as error:
        raise unavailable(provider, error) from None
    return url, signing.dumps(asdict(visit), salt=VISIT_COOKIE)


def configured(provider_id: str) -> OidcProvider:
    provider = exchanges.find(provider_id)
    if provider is None:
        raise ApplianceError(Code.NOT_FOUND, f'No identity provider "{provider_id[:50]}".')
    return provider


def unavailable(provider: OidcProvider, error: Exception) -> ApplianceError:
    log.error("provider %s: %s", provider.id, error)
    return ApplianceError(
        Code.PROVIDER_UNAVAILABLE,
        f"{provider.name} does not answer; try again later, or use a password.",
        retry_after_seconds=5,
    )


def opened(cookie: str, salt: str, seconds: int) -> dict[str, Any]:
    """Return the content of a signed cookie. Raises ApplianceError GONE if it is not valid."""
    try:
        content: dict[str, Any] = signing.loads(cookie, salt=salt, max_age=seconds)
    except signing.BadSignature:
        raise ApplianceError(
            Code.GONE, "This sign-in has ended, or another browser has begun it. Begin again."
        ) from None
    return content


def complete(*, cookie: str, state: str, code: str) -> Proved:
    """Return the person with whom the browser comes back.

    Raises ApplianceError GONE for a visit of another browser, UNAUTHENTICATED if a check fails,
    PROVIDER_UNAVAILABLE, CONFLICT if another account has the name.
    """
    visit = Visit(**opened(cookie, VISIT_COOKIE, VISIT_SECONDS))
    if not hmac.compare_digest(visit.state.encode(), state.encode()):
        raise ApplianceError(Code.GONE, "This is the return of another sign-in. Begin again.")
    provider = configured(visit.provider)
    try:
        claims = exchanges.claims_of_code(
            provider, code=code, verifier=visit.verifier, nonce=visit.nonce
        )
    except ProviderUnavailableError as error:
        raise unavailable(provider, error) from None
    except ProviderRefusedError as error:
        log.warning("provider %s: sign-in refused: %s", provider.id, error)
        raise ApplianceError(
            Code.UNAUTHENTICATED, f"The sign-in with {provider.name} was refused: {error}."
        ) from None
    user = adopt(provider, claims)
    if not user.is_active:
        raise ApplianceError(Code.UNAUTHENTICATED, f"The account {user.username} is inactive.")
    return proved(user, provider, claims)


def proved(user: User, provider: OidcProvider, claims: Mapping[str, Any]) -> Proved:
    methods = claims.get("amr")
    used = isinstance(methods, list) and MULTIPLE_FACTORS in methods
    return Proved(str(user.pk), hash_secret(user.password), used and provider.trusts_second_factor)


def proved_cookie(found: Proved) -> str:
    return signing.dumps(asdict(found), salt=PROVED_COOKIE)


def user_of(found: Proved) -> User:
    """Return the user, if the account is still as it was. Raises ApplianceError GONE."""
    user = User.objects.filter(pk=UUID(found.user), is_active=True).first()
    if user is None or hash_secret(user.password) != found.password_sha256:
        raise ApplianceError(Code.GONE, "The account has changed. Begin again.")
    return user


@write_transaction
def adopt(provider: OidcProvider, claims: Mapping[str, Any]) -> User:
    """Return the account of issuer and subject; the first time it is created.

    No other claim identifies a person: who runs a provider could write any mail address.
    """
    known = ExternalIdentity.objects.select_related("user")
    issuer, subject = provider.issuer, str(claims["sub"])
    identity = known.filter(issuer=issuer, subject=subject).first()
    if identity is None:
        username, email = claims.get(provider.username_claim), claims.get("email")
        if not isinstance(username, str) or not 0 < len(username) <= 150 or len(subject) > 255:
            raise ApplianceError(
                Code.UNAUTHENTICATED,
                f"{provider.name} tells no name of the person ({provider.username_claim}).",
            )
        identity = new_identity(
            issuer=issuer,
            subject=subject,
            username=username,
            email=email[:254] if isinstance(email, str) else "",
            source=Source.OIDC,
        )
    follow_groups(identity.user, provider, claims)
    return identity.user


def follow_groups(user: User, provider: OidcProvider, claims: Mapping[str, Any]) -> None:
    named = claims.get(provider.groups_claim)
    names = {n for n in named if isinstance(n, str)} if isinstance(named, list) else set()
    wanted = {group for name, group in provider.groups.items() if name in names}
    set_groups(user, set(provider.groups.values()), wanted)
