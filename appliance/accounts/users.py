"""Create, change and delete users."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.hashers import is_password_usable, make_password
from django.db import IntegrityError, transaction

from appliance.accounts.delegation import require_administrator, require_authority_over
from appliance.accounts.dependents import delete_with_dependents
from appliance.accounts.models import User
from appliance.accounts.named_rows import lock, save_changes, taken
from appliance.accounts.services import (
    new_one_time_password,
    one_time_password_end,
    store_password,
)
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction


def user_create(*, username: str, email: str, is_service: bool) -> tuple[User, str | None]:
    """Create a user without roles. Returns the user and a one-time password, None for a service.

    Hashing blocks for about 0.1 s, outside the transaction. Raises ApplianceError CONFLICT if
    the name is taken.
    """
    if is_service:
        return insert_user(username=username, email=email, encoded=make_password(None)), None
    password, encoded = new_one_time_password()
    return insert_user(username=username, email=email, encoded=encoded), password


@write_transaction
def insert_user(*, username: str, email: str, encoded: str) -> User:
    is_person = is_password_usable(encoded)
    try:
        with transaction.atomic():
            return User.objects.create(
                username=username,
                email=email,
                password=encoded,
                must_change_password=is_person,
                password_expires_at=one_time_password_end() if is_person else None,
            )
    except IntegrityError:
        raise taken("User", username) from None


@write_transaction
def user_update(*, user_id: UUID, actor: User, **columns: object) -> User:
    """Change a user. A user who becomes inactive loses tokens, sockets and allocations.

    Raises ApplianceError DENIED if the user has privileges that the actor lacks, CONFLICT for
    the last administrator.
    """
    user = lock(User, user_id)
    require_authority_over(actor, user)
    changed = save_changes(user, "User", columns)
    require_administrator()
    return changed


def reset_password(*, user_id: UUID, actor: User) -> str:
    """Set a one-time password and return it. The tokens of the user end.

    Raises ApplianceError DENIED if the user has privileges that the actor lacks, CONFLICT for a
    service account.
    """
    user = User.objects.get(pk=user_id)
    require_authority_over(actor, user)
    if not user.has_usable_password():
        raise ApplianceError(
            Code.CONFLICT, f"{user.username} is a service account, which has tokens only."
        )
    password, encoded = new_one_time_password()
    store_password(user=user, encoded=encoded, expires_at=one_time_password_end())
    return password


@write_transaction
def user_delete(*, user_id: UUID, actor: User) -> None:
    """Delete a user with the history of their allocations.

    Raises ApplianceError IN_USE with the blockers, DENIED if the user has privileges that the
    actor lacks, CONFLICT for oneself and the last administrator.
    """
    user = lock(User, user_id)
    if user.pk == actor.pk:
        raise ApplianceError(
            Code.CONFLICT, "You cannot delete your own account; another administrator can."
        )
    require_authority_over(actor, user)
    delete_with_dependents(user, f"User {user.username}")
    require_administrator()
