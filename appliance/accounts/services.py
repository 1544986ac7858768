"""Services of accounts: first administrator, passwords, tokens, departments and projects."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.password_validation import validate_password
from django.db import IntegrityError, transaction
from django.utils import timezone

from appliance.accounts.authentication import TOKEN_PREFIX, hash_secret
from appliance.accounts.models import ApiToken, Department, Project, Role, RoleBinding, User
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction

DEFAULT_PROJECT = "default"
ONE_TIME_PASSWORD_LIFETIME = timedelta(hours=24)

# Compared when the username is unknown, so that both cases take equally long.
_UNKNOWN_USER_PASSWORD = make_password("unknown")


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
    user = User.objects.create(username="admin", is_active=True)
    RoleBinding.objects.create(user=user, project=None, role=Role.ADMINISTRATOR)
    return set_one_time_password(user=user)


def set_one_time_password(*, user: User) -> str:
    """Set a random password that must be changed at first use and expires after 24 hours.

    Also writes it to `initial_password_file()` with mode 0600. Hashing blocks for about 0.1 s.
    """
    password = "-".join(secrets.token_hex(3) for _ in range(4))
    expires_at = timezone.now() + ONE_TIME_PASSWORD_LIFETIME
    store_password(user=user, encoded=make_password(password), expires_at=expires_at)
    path = initial_password_file()
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(password + "\n")
    return password


def password_change(*, user: User, new_password: str) -> None:
    """Set the user's own password and delete the file of the one-time password.

    Hashing blocks for about 0.1 s, outside the transaction. Raises django's ValidationError if
    the password is too weak.
    """
    validate_password(new_password, user)
    store_password(user=user, encoded=make_password(new_password), expires_at=None)
    initial_password_file().unlink(missing_ok=True)


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
    ApiToken.objects.filter(user=user).delete()


def login(*, username: str, password: str) -> User:
    """Return the user with this password. Blocks while the password is hashed.

    The HTTP server delays attempts after failures (login_gate.py).

    Raises:
        ApplianceError: UNAUTHENTICATED without revealing whether the username exists.
    """
    user = User.objects.filter(username=username, is_active=True).first()
    encoded = user.password if user else _UNKNOWN_USER_PASSWORD
    correct = check_password(password, encoded) and user is not None
    expired = (
        user is not None
        and user.password_expires_at is not None
        and user.password_expires_at < timezone.now()
    )
    if not correct or user is None or expired:
        hint = (
            " The one-time password expired after 24 hours;"
            " create a new one with `manage.py reset_admin_password`."
            if expired and correct
            else ""
        )
        raise ApplianceError(Code.UNAUTHENTICATED, f"Wrong username or password.{hint}")
    return user


@write_transaction
def token_create(
    *, user: User, name: str, lifetime: timedelta | None = None
) -> tuple[ApiToken, str]:
    """Create an API token. Returns the row and the token's text, which is not stored.

    The token is invalid from the start if the password of `user` is no longer the stored one.
    """
    secret = secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user,
        name=name,
        secret_sha256=hash_secret(secret),
        password_sha256=hash_secret(user.password),
        expires_at=timezone.now() + lifetime if lifetime else None,
    )
    return token, f"{TOKEN_PREFIX}{token.pk.hex}.{secret}"


@write_transaction
def token_revoke(*, token_id: UUID) -> None:
    ApiToken.objects.filter(pk=token_id).delete()


def find_department(name: str) -> Department | None:
    """Return the department with this name, or None for an empty name.

    Raises ApplianceError with NOT_FOUND if there is none.
    """
    if not name:
        return None
    department = Department.objects.filter(name=name).first()
    if department is None:
        raise ApplianceError(Code.NOT_FOUND, f'Department "{name}" not found. Create it first.')
    return department


@write_transaction
def department_create(*, name: str) -> Department:
    try:
        with transaction.atomic():
            return Department.objects.create(name=name)
    except IntegrityError:
        raise ApplianceError(
            Code.CONFLICT, f'Department "{name}" already exists; choose another name.'
        ) from None


@write_transaction
def project_create(*, name: str, department: str) -> Project:
    try:
        with transaction.atomic():
            return Project.objects.create(name=name, department=find_department(department))
    except IntegrityError:
        raise ApplianceError(
            Code.CONFLICT, f'Project "{name}" already exists; choose another name.'
        ) from None


@write_transaction
def project_set_department(*, project_id: UUID, department: str) -> Project:
    project = Project.objects.select_for_update().get(pk=project_id)
    project.department = find_department(department)
    project.version += 1
    project.save(update_fields=["department", "version"])
    return project
