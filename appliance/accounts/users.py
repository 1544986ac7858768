"""Create, change and delete users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.contrib.auth.hashers import is_password_usable, make_password
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from appliance.accounts.actions import (
    Action,
    Refusals,
    raise_refusal,
    register_kind,
)
from appliance.accounts.administrators import Administrators
from appliance.accounts.delegation import (
    authority_refusals,
    require_administrator,
    require_authority_over,
)
from appliance.accounts.dependents import delete_with_dependents, dependent_refusals
from appliance.accounts.models import Source, User
from appliance.accounts.named_rows import lock, save_changes, taken
from appliance.accounts.permissions import can, has_limited_token
from appliance.accounts.services import (
    end_tokens,
    new_one_time_password,
    one_time_password_end,
    store_password,
)
from appliance.api.account_names import comparison_key, is_in_usual_form, is_visible
from appliance.api.errors import ApplianceError, Code
from appliance.api.refusals import is_reserved
from appliance.audit.records import record_created
from appliance.db.writer import write_transaction


def first_password(*, is_service: bool) -> tuple[str | None, str]:
    """Return a one-time password, None for a service account, and what is stored of it.

    Hashing blocks for about 0.1 s: call it outside of a transaction.
    """
    return (None, make_password(None)) if is_service else new_one_time_password()


@write_transaction
def user_create(*, username: str, email: str, encoded: str) -> User:
    """Create a user without roles, with what is stored of `first_password`.

    Raises ApplianceError INVALID for a name that could be taken for another one in the audit,
    CONFLICT if the name is taken, also by one that differs by case or invisible joiners only.
    """
    require_distinct_name(username)
    is_person = is_password_usable(encoded)
    try:
        with transaction.atomic():
            user = User.objects.create(
                username=username,
                email=email,
                password=encoded,
                must_change_password=is_person,
                password_expires_at=one_time_password_end() if is_person else None,
            )
    except IntegrityError:
        raise taken("User", username) from None
    record_created(user)
    return user


def require_distinct_name(username: str) -> None:
    """Raise ApplianceError INVALID for a reserved name and for one with invisible characters.

    Raises CONFLICT if an account has a name that differs by case, joiners or form only.
    """
    if is_reserved(username):
        raise ApplianceError(
            Code.INVALID, f"The name {username} is reserved: the audit names the appliance by it."
        )
    if not is_visible(username) or not is_in_usual_form(username):
        raise ApplianceError(
            Code.INVALID,
            "username has characters that are invisible or look like others. Use their usual form.",
        )
    same = User.objects.filter(name_key=comparison_key(username)).first()
    if same is not None:
        raise ApplianceError(
            Code.CONFLICT,
            f"There is another account with the name {same.username}. Names that differ only by "
            "case or invisible joiners are the same name; choose another one.",
        )


@write_transaction
def user_update(*, user_id: UUID, actor: User, **columns: object) -> User:
    """Change a user. A user who becomes inactive loses tokens, sockets and allocations.

    Raises ApplianceError DENIED if the user has privileges that the actor lacks, CONFLICT for
    the last administrator.
    """
    user = lock(User, user_id)
    require_authority_over(actor, user)
    changed = save_user(user, columns)
    if "is_active" in columns:
        require_administrator()
    return changed


def save_user(user: User, columns: Mapping[str, object]) -> User:
    """Save changed columns in the current transaction. A change of `is_active` deletes all tokens.

    Also the return of an account deletes them: a sign-in that overlapped the deactivation, and
    code that changed the column alone, leave tokens that the deactivation did not delete.
    """
    if columns.get("is_active", user.is_active) != user.is_active:
        end_tokens(user)
    return save_changes(user, "User", columns)


def reset_password(*, user_id: UUID, actor: User) -> str:
    """Set a one-time password and return it. The tokens of the user end.

    Raises ApplianceError DENIED if the user has privileges that the actor lacks, CONFLICT for a
    service account.
    """
    user = User.objects.get(pk=user_id)
    require_authority_over(actor, user)
    raise_refusal(password_refusal(actor, user))
    password, encoded = new_one_time_password()
    store_password(user=user, encoded=encoded, expires_at=one_time_password_end())
    return password


def password_refusal(actor: User, user: User) -> ApplianceError | None:
    if user.is_service:
        return ApplianceError(
            Code.CONFLICT, f"{user.username} is a service account, which has tokens only."
        )
    if user.source:
        return ApplianceError(
            Code.CONFLICT,
            f"The password of {user.username} is not kept here. Change it where it is kept "
            f"({Source(user.source).label}).",
        )
    if user.pk == actor.pk and has_limited_token(actor):
        return ApplianceError(
            Code.DENIED,
            "A token with scopes or networks cannot set the password of its own user. Sign in "
            "with the password.",
        )
    return None


def own_account_refusal(actor: User, user: User) -> ApplianceError | None:
    if user.pk != actor.pk:
        return None
    return ApplianceError(
        Code.CONFLICT, "You cannot delete your own account; another administrator can."
    )


@write_transaction
def user_delete(*, user_id: UUID, actor: User) -> None:
    """Delete a user with the history of their allocations.

    Raises ApplianceError IN_USE with the blockers, DENIED if the user has privileges that the
    actor lacks, CONFLICT for oneself and the last administrator.
    """
    user = lock(User, user_id)
    raise_refusal(own_account_refusal(actor, user))
    require_authority_over(actor, user)
    delete_with_dependents(user)
    require_administrator()


def visible_users(viewer: User) -> QuerySet[User]:
    return User.objects.all() if can(viewer, MANAGE, None) else User.objects.none()


def reset_refusals(actor: User, users: Sequence[User]) -> Refusals:
    authority = authority_refusals(actor, users)
    return [a or password_refusal(actor, u) for a, u in zip(authority, users, strict=True)]


def second_factor_refusal(actor: User, user: User) -> ApplianceError | None:
    if user.pk == actor.pk:
        return ApplianceError(Code.CONFLICT, "Remove your own second factor in your account.")
    if user.second_factor_since is None:
        return ApplianceError(Code.CONFLICT, f"{user.username} has no second factor.")
    return None


def second_factor_refusals(actor: User, users: Sequence[User]) -> Refusals:
    authority = authority_refusals(actor, users)
    return [a or second_factor_refusal(actor, u) for a, u in zip(authority, users, strict=True)]


def deactivation_refusals(actor: User, users: Sequence[User]) -> Refusals:
    authority, administrators = authority_refusals(actor, users), Administrators()
    return [
        a or administrators.refusal(without_user=u.pk)
        for a, u in zip(authority, users, strict=True)
    ]


def deletion_refusals(actor: User, users: Sequence[User]) -> Refusals:
    dependents = dependent_refusals(users)
    rules = zip(users, authority_refusals(actor, users), dependents, strict=True)
    administrators = Administrators()
    return [
        own_account_refusal(actor, user)
        or authority
        or dependent
        or administrators.refusal(without_user=user.pk)
        for user, authority, dependent in rules
    ]


MANAGE = "accounts.manage"
USERS = register_kind("users", visible_users)
UPDATE = USERS.add(Action("update", MANAGE, authority_refusals))
USERS.add(Action("deactivate", MANAGE, deactivation_refusals))
RESET_PASSWORD = USERS.add(Action("reset_password", MANAGE, reset_refusals))
RESET_SECOND_FACTOR = USERS.add(Action("reset_second_factor", MANAGE, second_factor_refusals))
DELETE = USERS.add(Action("delete", MANAGE, deletion_refusals))
