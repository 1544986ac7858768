"""The WebAuthn exchange of passkeys: options with a challenge, and what a device answers.

A challenge is the time, sealed for its purpose, so no row waits for an answer. An accepted one is
stored until it has expired (`UsedChallenge`) and so holds once.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.db import IntegrityError, transaction
from django.utils import timezone
from fido2.utils import websafe_decode
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from appliance.accounts.models import User
from appliance.accounts.second_factor_policy import Policy, policy
from appliance.api.errors import ApplianceError, Code
from appliance.runtime.live_settings import current
from appliance.runtime.sealing import Purpose, UnreadableSecretError, seal, unseal
from appliance.runtime.setting_sections import SignInSettings
from appliance.signin.models import Passkey, UsedChallenge

if TYPE_CHECKING:
    from fido2.server import Fido2Server

LIFETIME = timedelta(minutes=5)
MAX_ID_BYTES = 1023
SIGN_IN = b"sign-in"
"""Purpose of challenges for a sign-in without a password, by any account."""
TIME = struct.Struct(">d")
REQUIRED = UserVerificationRequirement.REQUIRED
MALFORMED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    NotImplementedError,
    RecursionError,
    struct.error,
)
"""Errors of fido2 for an answer that no browser sends, such as one that is nested deeply."""
Json = dict[str, Any]


class RefusedPasskeyError(Exception):
    """An answer that does not prove a passkey. The text says why, for the log of the audit."""


@dataclass(frozen=True)
class Assertion:
    """Claims of an answer before it is verified."""

    credential_id: str
    sign_count: int


def is_enabled() -> bool:
    return bool(current(SignInSettings).passkey_domain) and policy() is not Policy.OFF


def require_enabled() -> None:
    """Raise ApplianceError CONFLICT without a trusted domain name, or if factors are turned off."""
    if policy() is Policy.OFF:
        raise ApplianceError(
            Code.CONFLICT, "Second factors are turned off in the settings of this appliance."
        )
    if not current(SignInSettings).passkey_domain:
        raise ApplianceError(
            Code.CONFLICT,
            "Passkeys need a domain name that browsers trust. An administrator sets it: "
            "busbar settings set sign_in.passkey_domain=NAME",
        )


def server() -> Fido2Server:
    """Return the relying party of the domain. Raises ApplianceError CONFLICT without one."""
    from fido2.server import Fido2Server  # reads a list of all public domain names

    require_enabled()
    domain = current(SignInSettings).passkey_domain
    party = PublicKeyCredentialRpEntity(name="Busbar", id=domain)
    return Fido2Server(party, verify_origin=lambda origin: is_within(origin, domain))


def is_within(origin: str, domain: str) -> bool:
    """Return whether an origin is HTTPS at the domain or below it, on any port."""
    parts = urlsplit(origin)
    host = parts.hostname or ""
    return parts.scheme == "https" and (host == domain or host.endswith(f".{domain}"))


def new_challenge(purpose: bytes) -> bytes:
    now = TIME.pack(timezone.now().timestamp())
    return base64.b64decode(seal(now, Purpose.PASSKEY, purpose))


def require_challenge(challenge: bytes, purpose: bytes) -> None:
    """Raise RefusedPasskeyError for a challenge of another purpose, or that is too old."""
    try:
        content = unseal(base64.b64encode(challenge).decode(), Purpose.PASSKEY, purpose)
        made = datetime.fromtimestamp(TIME.unpack(content)[0], UTC)
    except (UnreadableSecretError, struct.error):
        raise RefusedPasskeyError("challenge of another sign-in") from None
    if timezone.now() - made > LIFETIME:
        raise RefusedPasskeyError("expired challenge")


def use_up(challenge: bytes) -> None:
    """Store an accepted challenge. Raises RefusedPasskeyError if it was used before."""
    now = timezone.now()
    UsedChallenge.objects.filter(expires_at__lt=now).delete()
    digest = hashlib.sha256(challenge).hexdigest()
    try:
        with transaction.atomic():
            UsedChallenge.objects.create(sha256=digest, expires_at=now + 2 * LIFETIME)
    except IntegrityError:
        raise RefusedPasskeyError("challenge used before") from None


def registration_options(user: User, known: Iterable[Passkey]) -> Json:
    """Return the options of `navigator.credentials.create`."""
    entity = PublicKeyCredentialUserEntity(
        id=user.pk.bytes, name=user.username, display_name=user.username
    )
    options, _ = server().register_begin(
        entity,
        [descriptor(p) for p in known],
        resident_key_requirement=ResidentKeyRequirement.REQUIRED,
        user_verification=REQUIRED,
        challenge=new_challenge(b"register" + user.pk.bytes),
    )
    found: Json = plain(options.public_key)
    return found


def request_options(purpose: bytes, known: Iterable[Passkey] | None) -> Json:
    """Return the options of `navigator.credentials.get`; without `known` for any account."""
    options, _ = server().authenticate_begin(
        None if known is None else [descriptor(p) for p in known],
        user_verification=REQUIRED,
        challenge=new_challenge(purpose),
    )
    found: Json = plain(options.public_key)
    return found


def descriptor(passkey: Passkey) -> PublicKeyCredentialDescriptor:
    return PublicKeyCredentialDescriptor(
        type=PublicKeyCredentialType.PUBLIC_KEY, id=websafe_decode(passkey.credential_id)
    )


def plain(value: Any) -> Any:
    """Return the JSON types of a data object of fido2, without its empty members."""
    if hasattr(value, "items"):
        return {k: plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value.value if hasattr(value, "value") else value


def registered(user: User, credential: Json) -> tuple[AttestedCredentialData, int]:
    """Return the new credential and its counter. Raises RefusedPasskeyError."""
    try:
        answer = RegistrationResponse.from_dict(credential)
        challenge = answer.response.client_data.challenge
        require_challenge(challenge, b"register" + user.pk.bytes)
        data = server().register_complete(state_of(challenge), answer)
    except MALFORMED as error:
        raise RefusedPasskeyError(str(error)) from None
    found = data.credential_data
    if found is None or len(found.credential_id) > MAX_ID_BYTES:
        raise RefusedPasskeyError("no credential of at most 1023 bytes")
    if answer.raw_id != found.credential_id:
        raise RefusedPasskeyError("ids differ")
    use_up(challenge)
    return found, data.counter


def claimed(credential: Json) -> Assertion:
    """Return what an answer claims. Raises RefusedPasskeyError for a malformed one."""
    answer = parse(credential)
    return Assertion(answer.id, answer.response.authenticator_data.counter)


def verify(credential: Json, passkey: Passkey, purpose: bytes) -> None:
    """Check the signature and everything that it covers, and use up the challenge.

    Raises RefusedPasskeyError.
    """
    answer = parse(credential)
    challenge = answer.response.client_data.challenge
    require_challenge(challenge, purpose)
    known = AttestedCredentialData(base64.b64decode(passkey.credential_data))
    try:
        server().authenticate_complete(state_of(challenge), [known], answer)
    except MALFORMED as error:
        raise RefusedPasskeyError(str(error)) from None
    use_up(challenge)


def parse(credential: Json) -> AuthenticationResponse:
    try:
        return AuthenticationResponse.from_dict(credential)
    except MALFORMED as error:
        raise RefusedPasskeyError(str(error)) from None


def state_of(challenge: bytes) -> Json:
    """Return the state that fido2 compares. The challenge itself has been checked."""
    encoded = base64.urlsafe_b64encode(challenge).decode().rstrip("=")
    return {"challenge": encoded, "user_verification": REQUIRED}
