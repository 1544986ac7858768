"""Accounts: first administrator, passwords, tokens."""

from __future__ import annotations

import secrets
import threading
import time
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.password_validation import validate_password
from django.db import IntegrityError, transaction
from django.utils import timezone

from appliance.accounts.authentication import PREFIX, hash_secret
from appliance.accounts.models import ApiToken, Department, Project, Role, RoleBinding, User
from appliance.errors import ApplianceError, Code
from appliance.writer import writes

DEFAULT_PROJECT = "default"
ONE_TIME_PASSWORD_LIFE = timedelta(hours=24)
MAX_ATTEMPTS, ATTEMPT_WINDOW_SECONDS = 5, 900.0

_attempts: dict[str, list[float]] = {}
_attempts_lock = threading.Lock()
_NO_USER = make_password(
    "nobody"
)  # compared when the name is unknown, so that both cases take as long


def initial_password_file() -> Path:
    return Path(settings.DATA_DIR) / "initial-admin-password"


@writes
def ensure_defaults() -> str | None:
    """The default project and the first administrator. Returns a new one-time password, once."""
    Project.objects.get_or_create(name=DEFAULT_PROJECT)
    if User.objects.exists():
        return None
    user = User.objects.create(username="admin", is_active=True)
    RoleBinding.objects.create(user=user, project=None, role=Role.ADMINISTRATOR)
    return set_one_time_password(user=user)


@writes
def set_one_time_password(*, user: User) -> str:
    """Random, hashed, to be changed at first use, 24 h; also in a 0600 file. Blocks for the hash."""
    password = "-".join(secrets.token_hex(3) for _ in range(4))
    user.password = make_password(password)
    user.must_change_password = True
    user.password_expires_at = timezone.now() + ONE_TIME_PASSWORD_LIFE
    user.save(update_fields=["password", "must_change_password", "password_expires_at"])
    path = initial_password_file()
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(password + "\n")
    return password


@writes
def password_change(*, user: User, new_password: str) -> None:
    validate_password(new_password, user)
    user.password = make_password(new_password)
    user.must_change_password = False
    user.password_expires_at = None
    user.save(update_fields=["password", "must_change_password", "password_expires_at"])
    initial_password_file().unlink(missing_ok=True)


def throttle_login(username: str) -> None:
    now = time.monotonic()
    with _attempts_lock:
        recent = [t for t in _attempts.get(username, []) if now - t < ATTEMPT_WINDOW_SECONDS]
        _attempts[username] = recent
        if len(recent) >= MAX_ATTEMPTS:
            raise ApplianceError(
                Code.TOO_MANY_ATTEMPTS, "Too many wrong passwords; try again in 15 minutes."
            )
        if len(_attempts) > 10_000:
            _attempts.clear()


def login(*, username: str, password: str) -> User:
    """The user, or UNAUTHENTICATED without a hint which half was wrong. Blocks for the hash."""
    throttle_login(username)
    user = User.objects.filter(username=username, is_active=True).first()
    right = check_password(password, user.password if user else _NO_USER) and user is not None
    expired = (
        user is not None
        and user.password_expires_at is not None
        and user.password_expires_at < timezone.now()
    )
    if not right or user is None or expired:
        with _attempts_lock:
            _attempts.setdefault(username, []).append(time.monotonic())
        hint = (
            " Its 24 hours may be over: `manage.py reset_admin_password` makes a new one."
            if expired and right
            else ""
        )
        raise ApplianceError(Code.UNAUTHENTICATED, f"The user name or the password is wrong.{hint}")
    return user


@writes
def token_create(*, user: User, name: str, life: timedelta | None = None) -> tuple[ApiToken, str]:
    """The row, and the text that is shown once."""
    secret = secrets.token_urlsafe(32)
    expires = timezone.now() + life if life else None
    token = ApiToken.objects.create(
        user=user, name=name, secret_sha256=hash_secret(secret), expires_at=expires
    )
    return token, f"{PREFIX}{token.pk.hex}.{secret}"


@writes
def token_revoke(*, token_id: UUID) -> None:
    ApiToken.objects.filter(pk=token_id).delete()


def department_named(name: str) -> Department | None:
    """None for an empty name."""
    if not name:
        return None
    department = Department.objects.filter(name=name).first()
    if department is None:
        raise ApplianceError(Code.NOT_FOUND, f"There is no department {name}; make it first.")
    return department


@writes
def department_create(*, name: str) -> Department:
    try:
        with transaction.atomic():
            return Department.objects.create(name=name)
    except IntegrityError:
        raise ApplianceError(
            Code.CONFLICT, f"There is a department {name} already; choose another name."
        ) from None


@writes
def project_create(*, name: str, department: str) -> Project:
    try:
        with transaction.atomic():
            return Project.objects.create(name=name, department=department_named(department))
    except IntegrityError:
        raise ApplianceError(
            Code.CONFLICT, f"There is a project {name} already; choose another name."
        ) from None


@writes
def project_set_department(*, project_id: UUID, department: str) -> Project:
    project = Project.objects.select_for_update().get(pk=project_id)
    project.department = department_named(department)
    project.version += 1
    project.save(update_fields=["department", "version"])
    return project
