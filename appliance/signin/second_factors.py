"""Set up, check and remove second factors."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from appliance.accounts.actions import raise_refusal
from appliance.accounts.delegation import require_authority_over
from appliance.accounts.models import ApiToken, User
from appliance.accounts.named_rows import lock
from appliance.accounts.second_factor_policy import Policy, is_required, policy
from appliance.accounts.users import second_factor_refusal
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record
from appliance.db.writer import write_transaction
from appliance.runtime.sealing import Purpose, UnreadableSecretError, seal, unseal
from appliance.signin import recovery_codes, totp
from appliance.signin.models import Passkey, SecondFactor

FREE_FAILURES = 5
MAX_DELAY_SECONDS = 900
"""Only who knows the password gets this far, so strangers cannot delay the owner."""
PENDING_LIFETIME = timedelta(minutes=15)


class Verdict(enum.Enum):
    RIGHT = "right"
    WRONG = "wrong"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Checked:
    verdict: Verdict
    wait_seconds: int = 0
    """The code was not checked: codes are refused for this time."""


@write_transaction
def begin(*, user: User) -> bytes:
    """Return a new secret, which replaces one that was not confirmed. A factor in use stays.

    Raises ApplianceError CONFLICT if second factors are turned off.
    """
    require_turned_on()
    secret = totp.new_secret()
    SecondFactor.objects.update_or_create(
        user=user,
        defaults={
            "pending_secret": seal(secret, Purpose.SECOND_FACTOR, user.pk.bytes),
            "pending_since": timezone.now(),
        },
    )
    record(user, "second_factor_begun", {}, {"second_factor": "pending"})
    return secret


def require_turned_on() -> None:
    if policy() is Policy.OFF:
        raise ApplianceError(
            Code.CONFLICT, "Second factors are turned off in the settings of this appliance."
        )


@write_transaction
def confirm(*, user: User, code: str, sign_in: ApiToken | None = None) -> list[str] | None:
    """Use the pending secret if the code is of it. Returns recovery codes, or None if it is wrong.

    Ends the user's other sign-ins, which had no second factor or an older one. Raises
    ApplianceError CONFLICT if nothing is pending.
    """
    require_turned_on()
    factor = locked(user)
    if factor is None or not factor.pending_secret or not factor.pending_since:
        raise ApplianceError(Code.CONFLICT, "No second factor is pending. Begin again.")
    if timezone.now() - factor.pending_since > PENDING_LIFETIME:
        raise ApplianceError(Code.CONFLICT, "The secret is older than 15 minutes. Begin again.")
    secret = opened(factor.pending_secret, user.pk)
    step = totp.matching_step(secret, code, timezone.now().timestamp(), 0)
    if step is None:
        return None
    codes = recovery_codes.new_codes()
    factor.secret, factor.pending_secret, factor.pending_since = factor.pending_secret, "", None
    factor.last_step, factor.failures, factor.failed_at = step, 0, None
    factor.recovery_sha256 = [recovery_codes.digest(c) for c in codes]
    factor.save()
    set_since(user, timezone.now())
    record(user, "second_factor_enabled", {}, {"second_factor": "enabled"})
    end_sign_ins(user, sign_in)
    return codes


def opened(sealed: str, user_id: UUID) -> bytes:
    try:
        return unseal(sealed, Purpose.SECOND_FACTOR, user_id.bytes)
    except UnreadableSecretError:
        raise ApplianceError(
            Code.CONFLICT,
            "The second factor cannot be read, because the appliance's secret key is another one. "
            "An administrator removes it: busbar user reset-second-factor NAME",
        ) from None


def set_since(user: User, since: datetime | None) -> None:
    row = lock(User, user.pk)
    row.second_factor_since = user.second_factor_since = since
    row.save(update_fields=["second_factor_since"])


def end_sign_ins(user: User, kept: ApiToken | None) -> None:
    tokens = ApiToken.objects.filter(user=user, is_sign_in=True)
    tokens.filter(~Q(pk=kept.pk) if kept else Q()).delete()


def locked(user: User) -> SecondFactor | None:
    return SecondFactor.objects.select_for_update().filter(user=user).first()


def check(*, user: User, code: str) -> None:
    """Accept the code of the authenticator app, or a recovery code, once.

    Raises ApplianceError UNAUTHENTICATED for a wrong or used one, TOO_MANY_ATTEMPTS after
    failures, CONFLICT if the secret cannot be read.
    """
    found = attempt(user=user, code=code)
    if found.wait_seconds:
        raise ApplianceError(
            Code.TOO_MANY_ATTEMPTS,
            f"Too many wrong codes; try again in {found.wait_seconds} s.",
            retry_after_seconds=found.wait_seconds,
        )
    if found.verdict is Verdict.UNREADABLE:
        opened("", user.pk)
    if found.verdict is Verdict.WRONG:
        raise ApplianceError(
            Code.UNAUTHENTICATED,
            "Wrong code. Each code is valid once: wait for the next one, or use a recovery code.",
        )


@write_transaction
def attempt(*, user: User, code: str) -> Checked:
    """Check a code and store the result, also of a wrong one."""
    factor = locked(user)
    if factor is None:
        return Checked(Verdict.WRONG)
    if wait := seconds_to_wait(factor, timezone.now()):
        return Checked(Verdict.WRONG, wait)
    try:
        accepted = accept(factor, user, code)
    except UnreadableSecretError:
        return Checked(Verdict.UNREADABLE)
    factor.failures = 0 if accepted else factor.failures + 1
    factor.failed_at = None if accepted else timezone.now()
    factor.save()
    return Checked(Verdict.RIGHT if accepted else Verdict.WRONG)


def seconds_to_wait(factor: SecondFactor, now: datetime) -> int:
    excess = factor.failures - FREE_FAILURES
    if excess < 0 or factor.failed_at is None:
        return 0
    delay = min(1 << min(excess, 30), MAX_DELAY_SECONDS)
    return max(0, math.ceil(delay - (now - factor.failed_at).total_seconds()))


def accept(factor: SecondFactor, user: User, code: str) -> bool:
    """Return whether the code is right, and note on the row that it is used."""
    digest = recovery_codes.digest(code)
    if digest in factor.recovery_sha256:
        factor.recovery_sha256 = [d for d in factor.recovery_sha256 if d != digest]
        left = {"recovery_codes": len(factor.recovery_sha256)}
        record(user, "recovery_code_used", {"recovery_codes": left["recovery_codes"] + 1}, left)
        return True
    if not factor.secret:  # passkeys only
        return False
    secret = unseal(factor.secret, Purpose.SECOND_FACTOR, user.pk.bytes)
    now = timezone.now().timestamp()
    step = totp.matching_step(secret, recovery_codes.normalized(code), now, factor.last_step)
    if step is not None:
        factor.last_step = step
    return step is not None


@write_transaction
def replace_recovery_codes(*, user: User) -> list[str]:
    """Return new recovery codes; the old ones end.

    Raises ApplianceError CONFLICT without a second factor.
    """
    factor = locked(user)
    if factor is None or user.second_factor_since is None:
        raise ApplianceError(Code.CONFLICT, "There is no second factor. Set one up first.")
    codes = recovery_codes.new_codes()
    before = {"recovery_codes": len(factor.recovery_sha256)}
    factor.recovery_sha256 = [recovery_codes.digest(c) for c in codes]
    factor.save(update_fields=["recovery_sha256"])
    record(user, "recovery_codes_replaced", before, {"recovery_codes": len(codes)})
    return codes


@write_transaction
def remove(*, user: User) -> None:
    """Remove the own second factors, passkeys too.

    Raises ApplianceError CONFLICT if the policy requires one.
    """
    if is_required(user):
        raise ApplianceError(
            Code.CONFLICT,
            "A second factor is required of your account. Set up another one, which replaces it.",
        )
    delete(user)


@write_transaction
def reset(*, user: User, actor: User) -> None:
    """Remove the second factor of a user who has lost it, and end their sign-ins.

    Raises ApplianceError DENIED if the user has privileges that the actor lacks, CONFLICT for
    oneself and for a user without a second factor.
    """
    require_authority_over(actor, user)
    raise_refusal(second_factor_refusal(actor, user))
    delete(user)
    end_sign_ins(user, None)


@write_transaction
def reset_on_machine(*, user: User) -> None:
    """Remove the second factor of a user for the administrator of the machine."""
    delete(user)
    end_sign_ins(user, None)


def delete(user: User) -> None:
    before = "enabled" if user.second_factor_since else "none"
    Passkey.objects.filter(user=user).delete()
    SecondFactor.objects.filter(user=user).delete()
    set_since(user, None)
    record(user, "second_factor_removed", {"second_factor": before}, {"second_factor": "none"})
