"""Services of accounts: first administrator, passwords and tokens."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.password_validation import validate_password
from django.utils import timezone

from appliance.accounts.authentication import TOKEN_PREFIX, hash_secret
from appliance.accounts.models import ApiToken, Project, Role, RoleBinding, User
from appliance.accounts.projects import DEFAULT_PROJECT
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record, record_created, record_deleted
from appliance.db.writer import write_transaction
from appliance.runtime.admin_command import admin_command

ONE_TIME_PASSWORD_LIFETIME = timedelta(hours=24)
FIRST_ADMINISTRATOR = "admin"

PasswordObserver = Callable[[User], None]
_password_observers: list[PasswordObserver] = []


def initial_password_file() -> Path:
    return Path(settings.DATA_DIR) / "initial-admin-password"


@write_transaction
def ensure_defaults() -> str | None:
    """Create the default project and the first administrator if they are missing.

    Returns the new one-time password, or None if a user exists already.
    """
    Project.objects.get_or_create(name=DEFAULT_PROJECT)
    if User.objects.exists():
        return None
    user = User.objects.create(username=FIRST_ADMINISTRATOR, is_active=True)
    RoleBinding.objects.create(user=user, project=None, role=Role.ADMINISTRATOR)
    return set_one_time_password(user=user)


def new_one_time_password() -> tuple[str, str]:
    """Return a random password and its hash. Hashing blocks for about 0.1 s."""
    password = "-".join(secrets.token_hex(3) for _ in range(4))
    return password, make_password(password)


def one_time_password_end() -> datetime:
    return timezone.now() + ONE_TIME_PASSWORD_LIFETIME


def set_one_time_password(*, user: User) -> str:
    """Set a random password that must be changed at first use and expires after 24 hours.

    That of the first administrator is also written to `initial_password_file()` with mode 0600.
    Hashing blocks for about 0.1 s.
    """
    password, encoded = new_one_time_password()
    store_password(user=user, encoded=encoded, expires_at=one_time_password_end())
    if user.username != FIRST_ADMINISTRATOR:
        return password
    path = initial_password_file()
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(password + "\n")
    return password


def password_change(*, user: User, new_password: str) -> None:
    """Set the user's own password, and delete the file of the first administrator's password.

    Hashing blocks for about 0.1 s, outside the transaction. Raises django's ValidationError if
    the password is too weak.
    """
    validate_password(new_password, user)
    store_password(user=user, encoded=make_password(new_password), expires_at=None)
    forget_initial_password(user)


def forget_initial_password(user: User) -> None:
    """Delete the file of the first administrator's password if it was that user's."""
    if user.username == FIRST_ADMINISTRATOR:
        initial_password_file().unlink(missing_ok=True)


def observe_passwords(tell: PasswordObserver) -> None:
    """Have `tell` called with each user whose password is stored, in the same transaction."""
    _password_observers.append(tell)


@write_transaction
def store_password(*, user: User, encoded: str, expires_at: datetime | None) -> None:
    """Store a hashed password and delete the user's tokens.

    A password that expires must be changed at first use. Other code that changes the column ends
    the tokens as well (`authentication.is_valid`), and their rows stay.
    """
    user.password = encoded
    user.must_change_password = expires_at is not None
    user.password_expires_at = expires_at
    user.save(update_fields=["password", "must_change_password", "password_expires_at"])
    changed = {"password": "changed", "must_change_password": user.must_change_password}
    record(user, "password_changed", {}, changed)
    for tell in _password_observers:
        tell(user)
    end_tokens(user)


def end_tokens(user: User) -> None:
    """Delete all tokens of the user, those that they made, and the logins that they approved."""
    for token in ApiToken.objects.filter(made_with__user=user).exclude(user=user):
        record_deleted(token)  # of another user, whose record does not tell it
    ApiToken.objects.filter(user=user).delete()


@cache
def unknown_user_password() -> str:
    """Return the hash that is compared if the user is unknown: both cases take equally long."""
    return make_password("unknown")


def login(*, username: str, password: str) -> User:
    """Return the user with this password. Blocks while the password is hashed.

    The HTTP server delays attempts after failures (login_gate.py).

    Raises:
        ApplianceError: UNAUTHENTICATED without revealing whether the username exists.
    """
    user = User.objects.filter(username=username, is_active=True).first()
    unknown = unknown_user_password()  # for known users, too: the first call takes longer
    correct = check_password(password, user.password if user else unknown) and user is not None
    expired = (
        user is not None
        and user.password_expires_at is not None
        and user.password_expires_at < timezone.now()
    )
    if not correct or user is None or expired:
        hint = (
            " The one-time password expired after 24 hours. An administrator makes a new one:"
            f" `{shlex.join(['busbar', 'user', 'reset-password', username])}`, or"
            f" `{admin_command(Path(settings.DATA_DIR), 'reset-password', username)}`"
            " on the appliance's machine."
            if expired and correct
            else ""
        )
        raise ApplianceError(Code.UNAUTHENTICATED, f"Wrong username or password.{hint}")
    return user


@write_transaction
def token_create(
    *,
    user: User,
    name: str,
    lifetime: timedelta | None = None,
    expires_at: datetime | None = None,
    scopes: Sequence[str] = (),
    networks: Sequence[str] = (),
    is_sign_in: bool = False,
    signed_in_at: datetime | None = None,
    made_with: ApiToken | None = None,
) -> tuple[ApiToken, str]:
    """Create an API token. Returns the row and the token's text, which is not stored.

    Without lifetime and end it is valid until it is revoked. A sign-in was just now, unless
    `signed_in_at` says when.

    The token is invalid from the start if the password of `user` is no longer the stored one.
    """
    secret = secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user,
        name=name,
        secret_sha256=hash_secret(secret),
        password_sha256=hash_secret(user.password),
        scopes=list(scopes),
        networks=list(networks),
        is_sign_in=is_sign_in,
        signed_in_at=(signed_in_at or timezone.now()) if is_sign_in else None,
        made_with=made_with,
        expires_at=timezone.now() + lifetime if lifetime else expires_at,
    )
    record_created(token)
    return token, f"{TOKEN_PREFIX}{token.pk.hex}.{secret}"


@write_transaction
def token_revoke(*, token_id: UUID) -> None:
    for token in ApiToken.objects.filter(pk=token_id):
        record_deleted(token)
        token.delete()
