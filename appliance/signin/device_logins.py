"""Sign-in of a device that has no password: it shows a code, which a signed-in user approves.

As RFC 8628, without an address that contains the code: the user types it.
"""

from __future__ import annotations

import secrets
import threading
import time
from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from appliance.accounts.authentication import hash_secret
from appliance.accounts.authorization import require_own_password
from appliance.accounts.models import ApiToken, User
from appliance.accounts.second_factor_policy import is_required, require_second_factor
from appliance.accounts.services import token_create
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record
from appliance.db import origin
from appliance.db.writer import write_transaction
from appliance.runtime.client_network import client_network
from appliance.runtime.recent import RecentEntries
from appliance.signin.models import DeviceLogin

LIFETIME = timedelta(minutes=10)
TOKEN_LIFETIME = timedelta(days=30)
ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""Without vowels, so that no words appear, and without digits, which look like letters."""
CODE_LENGTH = 8
MAX_PENDING = 1000
MAX_PENDING_PER_NETWORK = 10
POLL_SECONDS = 5
MIN_POLL_SECONDS = 2.0
MAX_WRONG_CODES = 10
WRONG_CODES_SECONDS = 600.0

_polled: RecentEntries[UUID, float] = RecentEntries(MAX_PENDING)
_wrong: RecentEntries[UUID, list[float]] = RecentEntries(MAX_PENDING)
_lock = threading.Lock()


def begin(*, client: str, address: str) -> tuple[DeviceLogin, str]:
    """Return a new row and the secret with which the device takes its token.

    Raises ApplianceError TOO_MANY_ATTEMPTS if too many of the client wait, BUSY if too many do.
    """
    require_few_waiting(client_network(address))  # a stranger's refusal costs no transaction
    return insert(client=client, address=address)


def require_few_waiting(network: str) -> None:
    rows = DeviceLogin.objects.filter(expires_at__gte=timezone.now())
    if rows.filter(network=network).count() >= MAX_PENDING_PER_NETWORK:
        raise ApplianceError(
            Code.TOO_MANY_ATTEMPTS,
            "Too many sign-ins from your address wait for approval; try again in a minute.",
            retry_after_seconds=60,
        )
    if rows.count() >= MAX_PENDING:
        raise ApplianceError(Code.BUSY, "Too many sign-ins wait for approval; try again later.")


@write_transaction
def insert(*, client: str, address: str) -> tuple[DeviceLogin, str]:
    DeviceLogin.objects.filter(expires_at__lt=timezone.now()).delete()
    secret = secrets.token_urlsafe(32)
    row = DeviceLogin.objects.create(
        code=new_code(),
        secret_sha256=hash_secret(secret),
        client=client,
        address=address[:45],
        network=client_network(address)[:45],
        expires_at=timezone.now() + LIFETIME,
    )
    return row, f"{row.pk.hex}.{secret}"


def new_code() -> str:
    text = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
    return f"{text[:4]}-{text[4:]}"


def normalized(code: str) -> str:
    """Return a code as it is stored, however it is typed."""
    letters = "".join(c for c in code.upper() if c.isalnum())
    return f"{letters[:4]}-{letters[4:]}"


def find(*, code: str, user: User) -> DeviceLogin:
    """Return the sign-in that waits with this code.

    Raises ApplianceError NOT_FOUND, TOO_MANY_ATTEMPTS after ten wrong codes of the user.
    """
    require_few_wrong_codes(user.pk)
    row = DeviceLogin.objects.filter(
        code=normalized(code)[:9], expires_at__gte=timezone.now(), approved_by=None, is_denied=False
    ).first()
    if row is None:
        with _lock:
            _wrong.store(user.pk, [*(_wrong.get(user.pk) or ()), time.monotonic()])
        raise ApplianceError(
            Code.NOT_FOUND, "No sign-in waits with this code. It ends after 10 minutes."
        )
    return row


def require_few_wrong_codes(user_id: UUID) -> None:
    now = time.monotonic()
    with _lock:
        recent = [t for t in _wrong.get(user_id) or () if now - t < WRONG_CODES_SECONDS]
        _wrong.store(user_id, recent)
    if len(recent) >= MAX_WRONG_CODES:
        seconds = int(WRONG_CODES_SECONDS - (now - recent[0])) + 1
        raise ApplianceError(
            Code.TOO_MANY_ATTEMPTS,
            f"Too many wrong codes; try again in {seconds} s.",
            retry_after_seconds=seconds,
        )


@write_transaction
def decide(*, code: str, user: User, token: ApiToken, approves: bool) -> DeviceLogin:
    """Approve or deny a sign-in that waits. The device gets what `token` permits, as `user`.

    Raises as `find` does, and ApplianceError for a user who may not work.
    """
    require_own_password(user)
    require_second_factor(user)
    row = find(code=code, user=user)
    if approves:
        row.approved_by, row.approved_with = user, token
        row.password_sha256 = token.password_sha256
    row.is_denied = not approves
    row.save()
    record(row, "approved" if approves else "denied", {}, values_of(row))
    return row


def redeem(*, device_code: str) -> tuple[User, str]:
    """Return the user who has approved, and the text of a new token. Works once.

    Raises ApplianceError DEVICE_LOGIN_PENDING until then, TOO_MANY_ATTEMPTS for polls in quick
    succession, DENIED, and GONE for an unknown or expired code.
    """
    row = waiting(device_code)
    require_slow_polls(row.pk)
    if row.is_denied:
        discard(row_id=row.pk)
        raise ApplianceError(Code.DENIED, "The sign-in was denied.")
    if row.approved_by is None or row.approved_with is None:
        raise ApplianceError(
            Code.DEVICE_LOGIN_PENDING,
            "No user has approved the sign-in yet.",
            retry_after_seconds=POLL_SECONDS,
        )
    return take(row_id=row.pk)


def waiting(device_code: str) -> DeviceLogin:
    head, _, secret = device_code.partition(".")
    try:
        row_id = UUID(hex=head)
    except ValueError:
        raise gone() from None
    row = DeviceLogin.objects.select_related("approved_by", "approved_with").filter(pk=row_id)
    found = row.filter(secret_sha256=hash_secret(secret), expires_at__gte=timezone.now()).first()
    if found is None:
        raise gone()
    return found


def gone() -> ApplianceError:
    return ApplianceError(Code.GONE, "The sign-in has ended. Begin again with `busbar login`.")


def require_slow_polls(row_id: UUID) -> None:
    now = time.monotonic()
    with _lock:
        previous = _polled.get(row_id)
        _polled.store(row_id, now)
    if previous is not None and now - previous < MIN_POLL_SECONDS:
        raise ApplianceError(
            Code.TOO_MANY_ATTEMPTS,
            f"Ask every {POLL_SECONDS} s.",
            retry_after_seconds=POLL_SECONDS,
        )


@write_transaction
def discard(*, row_id: UUID) -> None:
    DeviceLogin.objects.filter(pk=row_id).delete()


@write_transaction
def take(*, row_id: UUID) -> tuple[User, str]:
    """Create the token of an approved sign-in and delete the row.

    Raises ApplianceError GONE if another request has taken it, or if the approval has ended with
    the account, the password, or the token that approved.
    """
    locked = DeviceLogin.objects.select_for_update(of=("self",))
    row = locked.select_related("approved_by", "approved_with").filter(pk=row_id).first()
    if row is None or row.approved_by is None or row.approved_with is None:
        raise gone()
    user, token = row.approved_by, row.approved_with
    is_same = user.is_active and row.password_sha256 == hash_secret(user.password)
    lacks_factor = user.second_factor_since is None and is_required(user)
    if not is_same or user.must_change_password or lacks_factor:
        raise gone()
    origin.act_as(user.username)
    end = timezone.now() + TOKEN_LIFETIME
    _, text = token_create(
        user=user,
        name=f"device {row.client}".strip()[:100],
        scopes=token.scopes,
        networks=token.networks,
        is_sign_in=token.is_sign_in,
        signed_in_at=token.signed_in_at,
        made_with=None if token.is_sign_in else token,
        expires_at=end if token.is_sign_in else min(token.expires_at or end, end),
    )
    row.delete()
    return user, text
