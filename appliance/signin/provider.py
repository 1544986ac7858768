"""Exchanges with OpenID Connect providers: configuration, keys, codes and ID tokens.

They block; each has a time limit. Nothing of a provider is believed without a signature by a key of
its key set, for this client, for this sign-in and for the present time.
"""

from __future__ import annotations

import hmac
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import jwt
from django.conf import settings

from appliance.environment import OidcProvider

if TYPE_CHECKING:
    import httpx  # imported when a provider is asked: 3 MB in each of two processes

TIMEOUT_SECONDS = 5.0
MAX_ANSWER_BYTES = 1 << 20
CLOCK_SKEW_SECONDS = 120
CONFIGURATION_SECONDS = 600.0
FAILURE_SECONDS = 5.0
"""A provider that has failed is not asked for its configuration for this time."""
MIN_KEY_INTERVAL_SECONDS = 10.0
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
"""Signatures by keys that only the provider has; never `none` or a shared secret."""
RETURN_PATH = "/sign-in"


class ProviderUnavailableError(Exception):
    """The provider cannot be reached, or its configuration is not usable."""


class ProviderRefusedError(Exception):
    """The provider, or a check of what it says, refuses this sign-in."""


@dataclass(frozen=True)
class Configuration:
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str
    posts_secret: bool
    """Whether the client's secret is part of the form instead of a header."""


@dataclass
class Known:
    """Configuration and keys that were read of a provider, with the monotonic times."""

    configuration: Configuration | None = None
    read_at: float = 0.0
    failed_at: float = -1e9
    keys: jwt.PyJWKSet | None = None
    keys_at: float = -1e9


_known: dict[str, Known] = {}
_lock = threading.Lock()


def find(provider_id: str) -> OidcProvider | None:
    return next((p for p in settings.ENVIRONMENT.oidc_providers if p.id == provider_id), None)


def known_of(provider: OidcProvider) -> Known:
    with _lock:
        return _known.setdefault(f"{provider.issuer} {provider.client_id}", Known())


def redirect_uri() -> str:
    return str(settings.ENVIRONMENT.console_url) + RETURN_PATH


def ask(provider: OidcProvider, method: str, url: str, **options: Any) -> dict[str, Any]:
    """Return the JSON object that the provider answers.

    Raises ProviderUnavailableError, or ProviderRefusedError for a status from 400 to 499.
    """
    import httpx

    if not url.startswith("https://"):
        raise ProviderUnavailableError(f"the provider names an address without TLS: {url[:100]}")
    try:
        context = ssl.create_default_context(cafile=str(provider.ca) if provider.ca else None)
        with (
            httpx.Client(verify=context, trust_env=False, timeout=TIMEOUT_SECONDS) as client,
            client.stream(method, url, **options) as response,
        ):
            content = read_limited(response)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ProviderUnavailableError(f"{url[:100]}: {error}") from None
    return decoded(response.status_code, content, url)


def read_limited(response: httpx.Response) -> bytes:
    """Return the body. Raises OSError if it is too long or takes too long."""
    content, end = b"", time.monotonic() + TIMEOUT_SECONDS
    for part in response.iter_bytes():
        content += part
        if len(content) > MAX_ANSWER_BYTES or time.monotonic() > end:
            raise OSError("the answer is too long")
    return content


def decoded(status: int, content: bytes, url: str) -> dict[str, Any]:
    import httpx

    try:
        found = httpx.Response(status, content=content).json()
    except ValueError:
        found = None
    if 400 <= status < 500:
        error = found.get("error") if isinstance(found, dict) else status
        raise ProviderRefusedError(f"the provider answered {str(error)[:100]}")
    if status != 200 or not isinstance(found, dict):
        raise ProviderUnavailableError(f"{url[:100]}: status {status}, or no JSON object")
    return found


def configuration_of(provider: OidcProvider) -> Configuration:
    """Return the endpoints of the provider, read at most every ten minutes."""
    known, now = known_of(provider), time.monotonic()
    if known.configuration is not None and now - known.read_at < CONFIGURATION_SECONDS:
        return known.configuration
    if now - known.failed_at < FAILURE_SECONDS:
        raise ProviderUnavailableError("the provider has failed just now")
    try:
        url = f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
        known.configuration = parse_configuration(ask(provider, "GET", url), provider)
    except (ProviderUnavailableError, ProviderRefusedError) as error:
        known.failed_at = time.monotonic()
        raise ProviderUnavailableError(str(error)) from None
    known.read_at = time.monotonic()
    return known.configuration


def parse_configuration(found: Mapping[str, Any], provider: OidcProvider) -> Configuration:
    if found.get("issuer") != provider.issuer:
        raise ProviderUnavailableError(
            f"the provider calls itself {str(found.get('issuer'))[:100]}, not {provider.issuer}"
        )
    methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    try:
        return Configuration(
            str(found["authorization_endpoint"]),
            str(found["token_endpoint"]),
            str(found["jwks_uri"]),
            str(found.get("userinfo_endpoint", "")),
            "client_secret_basic" not in methods,
        )
    except KeyError as error:
        raise ProviderUnavailableError(f"its configuration lacks {error}") from None


def authorization_url(provider: OidcProvider, *, state: str, nonce: str, challenge: str) -> str:
    query = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": redirect_uri(),
        "scope": provider.scopes,
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    endpoint = configuration_of(provider).authorization_endpoint
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


def claims_of_code(
    provider: OidcProvider, *, code: str, verifier: str, nonce: str
) -> dict[str, Any]:
    """Exchange an authorization code and return the verified claims of the ID token.

    Claims that only the provider's user information has are added.
    """
    configuration = configuration_of(provider)
    secret = read_secret(provider)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri(),
        "code_verifier": verifier,
    }
    post = partial(ask, provider, "POST", configuration.token_endpoint)
    if configuration.posts_secret:
        credentials = {"client_id": provider.client_id, "client_secret": secret}
        tokens = post(data=form | credentials)
    else:
        tokens = post(data=form, auth=basic(provider.client_id, secret))
    claims = verified(provider, str(tokens.get("id_token", "")), nonce)
    if provider.username_claim not in claims and configuration.userinfo_endpoint:
        headers = {"Authorization": f"Bearer {tokens.get('access_token', '')}"}
        more = ask(provider, "GET", configuration.userinfo_endpoint, headers=headers)
        if more.get("sub") != claims["sub"]:
            raise ProviderRefusedError("the user information is of another person")
        claims = more | claims
    return claims


def basic(client_id: str, secret: str) -> httpx.BasicAuth:
    """Return the header of RFC 6749, in which both parts are form-encoded first."""
    import httpx

    encode = partial(httpx.QueryParams().set, "x")
    return httpx.BasicAuth(*(str(encode(part)).removeprefix("x=") for part in (client_id, secret)))


def read_secret(provider: OidcProvider) -> str:
    try:
        return provider.client_secret_file.read_text().strip()
    except OSError as error:
        raise ProviderUnavailableError(f"{error.strerror}: {error.filename}") from None


def verified(provider: OidcProvider, id_token: str, nonce: str) -> dict[str, Any]:
    """Return the claims of an ID token. Raises ProviderRefusedError unless all checks hold."""
    try:
        claims: dict[str, Any] = jwt.decode(
            id_token,
            key_of(provider, jwt.get_unverified_header(id_token)),
            algorithms=ALGORITHMS,
            audience=provider.client_id,
            issuer=provider.issuer,
            leeway=CLOCK_SKEW_SECONDS,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
    except jwt.PyJWTError as error:
        raise ProviderRefusedError(f"its ID token is not valid: {error}") from None
    if not hmac.compare_digest(str(claims.get("nonce", "")), nonce):
        raise ProviderRefusedError("its ID token is of another sign-in")
    if claims.get("azp", provider.client_id) != provider.client_id:
        raise ProviderRefusedError("its ID token is for another client")
    return claims


def key_of(provider: OidcProvider, header: Mapping[str, Any]) -> jwt.PyJWK:
    """Return the provider's key that a token names. Reads the keys again for an unknown one."""
    known = known_of(provider)
    if found := matching(known.keys, header):
        return found
    if time.monotonic() - known.keys_at > MIN_KEY_INTERVAL_SECONDS:
        known.keys_at = time.monotonic()
        content = ask(provider, "GET", configuration_of(provider).jwks_uri)
        try:
            known.keys = jwt.PyJWKSet.from_dict(content)
        except jwt.PyJWTError as error:
            raise ProviderUnavailableError(f"its keys are not usable: {error}") from None
    if found := matching(known.keys, header):
        return found
    raise ProviderRefusedError("its ID token is signed by an unknown key")


def matching(keys: jwt.PyJWKSet | None, header: Mapping[str, Any]) -> jwt.PyJWK | None:
    """Return the key with the name in the header, or the only key if there is no name."""
    usable = [k for k in (keys.keys if keys else ()) if k.public_key_use in (None, "sig")]
    if "kid" not in header:
        return usable[0] if len(usable) == 1 else None
    return next((k for k in usable if k.key_id == header["kid"]), None)
