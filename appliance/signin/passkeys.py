"""Passkeys of users: add, rename, remove, and prove at a sign-in."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from fido2.utils import websafe_encode

from appliance.accounts.actions import Action, Refusals, raise_refusal, register_kind
from appliance.accounts.authorization import SELF
from appliance.accounts.models import ApiToken, User
from appliance.accounts.named_rows import lock
from appliance.accounts.permissions import has_scope, token_id_of
from appliance.accounts.second_factor_policy import is_required
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record, record_changed, record_created, record_deleted
from appliance.db.writer import write_transaction
from appliance.signin import passkey_protocol, recovery_codes
from appliance.signin.fresh_sign_in import stale_sign_in_refusal
from appliance.signin.models import Passkey, SecondFactor
from appliance.signin.passkey_protocol import Json, RefusedPasskeyError
from appliance.signin.second_factors import end_sign_ins, locked, set_since

MAX_PASSKEYS = 20
LOGIN = b"login"
"""First bytes of the purpose of challenges for the second factor of one user."""
REFUSED = "The passkey was not accepted. Try again, or use another second factor."


def registration_options(*, user: User) -> Json:
    """Return the options with which a browser makes a passkey. Raises ApplianceError CONFLICT."""
    passkey_protocol.require_enabled()
    require_room(user)
    return passkey_protocol.registration_options(user, Passkey.objects.filter(user=user))


def require_room(user: User) -> None:
    if Passkey.objects.filter(user=user).count() >= MAX_PASSKEYS:
        raise ApplianceError(Code.CONFLICT, f"An account has at most {MAX_PASSKEYS} passkeys.")


@write_transaction
def add(
    *, user: User, name: str, credential: Json, sign_in: ApiToken | None
) -> tuple[Passkey, list[str]]:
    """Store a new passkey. Returns recovery codes too, if it is the first second factor.

    The first one ends the user's other sign-ins, which had no second factor. Raises ApplianceError
    INVALID for an answer that is not one to our options, CONFLICT for too many passkeys.
    """
    passkey_protocol.require_enabled()
    require_room(user)
    try:
        found, count = passkey_protocol.registered(user, credential)
    except RefusedPasskeyError as error:
        raise ApplianceError(Code.INVALID, f"The browser's answer is not valid: {error}.") from None
    try:
        with transaction.atomic():
            passkey = Passkey.objects.create(
                user=user,
                name=name,
                credential_id=websafe_encode(found.credential_id),
                credential_data=base64.b64encode(found).decode(),
                sign_count=count,
            )
    except IntegrityError:
        raise ApplianceError(Code.CONFLICT, "This passkey belongs to an account already.") from None
    record_created(passkey)
    return passkey, begin_second_factor(user, sign_in)


def begin_second_factor(user: User, sign_in: ApiToken | None) -> list[str]:
    """Turn the second factor on if it is off. Returns its recovery codes, or none."""
    # Not of `user`: another attempt of this transaction may have changed it, and was undone.
    if lock(User, user.pk).second_factor_since is not None:
        return []
    codes = recovery_codes.new_codes()
    SecondFactor.objects.update_or_create(
        user=user, defaults={"recovery_sha256": [recovery_codes.digest(c) for c in codes]}
    )
    set_since(user, timezone.now())
    record(user, "second_factor_enabled", {}, {"second_factor": "enabled"})
    end_sign_ins(user, sign_in)
    return codes


@write_transaction
def rename(*, user: User, passkey_id: UUID, name: str | None) -> Passkey:
    """Rename a passkey of the user, or change nothing without a name."""
    passkey = own(user, passkey_id)
    if name is None:
        return passkey
    before = values_of(passkey)
    passkey.name = name
    passkey.save(update_fields=["name"])
    record_changed(passkey, before)
    return passkey


def own(user: User, passkey_id: UUID) -> Passkey:
    """Return a passkey of the user. Raises Http404 for another's."""
    found = Passkey.objects.select_for_update().filter(user=user, pk=passkey_id).first()
    if found is None:
        raise Http404
    return found


@write_transaction
def remove(*, user: User, passkey_id: UUID) -> None:
    """Remove a passkey, and with the last second factor its recovery codes.

    Raises ApplianceError CONFLICT if the policy requires the last one.
    """
    passkey = own(user, passkey_id)
    is_last = has_one_factor(user, locked(user))
    raise_refusal(last_factor_refusal(user, is_last=is_last))
    record_deleted(passkey)
    passkey.delete()
    if is_last:
        SecondFactor.objects.filter(user=user).delete()
        set_since(user, None)
        record(
            user, "second_factor_removed", {"second_factor": "enabled"}, {"second_factor": "none"}
        )


def has_one_factor(user: User, factor: SecondFactor | None) -> bool:
    """Return whether a passkey of the user is the only second factor. `factor` has the other."""
    has_code = factor is not None and bool(factor.secret)
    return not has_code and Passkey.objects.filter(user=user).count() == 1


def last_factor_refusal(user: User, *, is_last: bool) -> ApplianceError | None:
    if not is_last or not is_required(user):
        return None
    return ApplianceError(
        Code.CONFLICT, "A second factor is required of your account. Set up another one first."
    )


def removal_refusals(user: User, rows: Sequence[Passkey]) -> Refusals:
    """Return the error for each of the user's own passkeys. All have the same one."""
    token_id = token_id_of(user)
    token = ApiToken.objects.filter(pk=token_id).first() if token_id else None
    factor = SecondFactor.objects.filter(user=user).first()
    refusal = stale_sign_in_refusal(token) or last_factor_refusal(
        user, is_last=has_one_factor(user, factor)
    )
    return [refusal] * len(rows)


def visible_passkeys(user: User) -> QuerySet[Passkey]:
    rows = Passkey.objects.filter(user=user)
    return rows if has_scope(user, SELF) else rows.none()


PASSKEYS = register_kind("passkeys", visible_passkeys)
RENAME = PASSKEYS.add(Action[Passkey]("rename", SELF))
REMOVE = PASSKEYS.add(Action("delete", SELF, removal_refusals))


def login_options(user: User) -> Json | None:
    """Return the options for the second factor of a login; None without a passkey."""
    known = list(Passkey.objects.filter(user=user)) if passkey_protocol.is_enabled() else []
    return passkey_protocol.request_options(LOGIN + user.pk.bytes, known) if known else None


def check(*, user: User, credential: Json) -> None:
    """Accept a passkey as the second factor of a user whose password was right.

    Raises ApplianceError UNAUTHENTICATED.
    """
    passkey_protocol.require_enabled()
    prove(credential, LOGIN + user.pk.bytes, user)


def sign_in(*, credential: Json) -> User:
    """Return the user of a passkey that is the whole sign-in: device and PIN or biometrics.

    Raises ApplianceError UNAUTHENTICATED, PASSWORD_CHANGE_REQUIRED while a one-time password waits.
    """
    passkey_protocol.require_enabled()
    user = prove(credential, passkey_protocol.SIGN_IN, None)
    if user.must_change_password:
        raise ApplianceError(
            Code.PASSWORD_CHANGE_REQUIRED, "Sign in with the one-time password first."
        )
    return user


def prove(credential: Json, purpose: bytes, owner: User | None) -> User:
    try:
        return attempt(credential, purpose, owner)
    except RefusedPasskeyError as error:
        raise ApplianceError(Code.UNAUTHENTICATED, REFUSED, reason=str(error)) from None


@write_transaction
def attempt(credential: Json, purpose: bytes, owner: User | None) -> User:
    """Verify an answer and note its use. Raises RefusedPasskeyError."""
    claim = passkey_protocol.claimed(credential)
    rows = Passkey.objects.select_for_update().select_related("user")
    rows = rows.filter(credential_id=claim.credential_id, user__is_active=True)
    passkey = (rows if owner is None else rows.filter(user=owner)).first()
    if passkey is None:
        raise RefusedPasskeyError("unknown passkey")
    passkey_protocol.verify(credential, passkey, purpose)
    require_growth(passkey, claim.sign_count)
    passkey.sign_count, passkey.last_used_at = claim.sign_count, timezone.now()
    passkey.save(update_fields=["sign_count", "last_used_at"])
    return passkey.user


def require_growth(passkey: Passkey, count: int) -> None:
    """Raise RefusedPasskeyError if the counter has not grown: the device may have been copied.

    Devices without a counter, such as phones that share passkeys, always send 0.
    """
    if (count or passkey.sign_count) and count <= passkey.sign_count:
        raise RefusedPasskeyError("counter of a copied device")
