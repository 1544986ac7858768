"""API tokens that users make for programs, and their revocation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from appliance.accounts.authorization import denied
from appliance.accounts.delegation import require_authority_over
from appliance.accounts.models import ApiToken, User
from appliance.accounts.named_rows import find_named
from appliance.accounts.permissions import can, has_scope
from appliance.accounts.services import token_create, token_revoke
from appliance.accounts.token_limits import limits_of
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction

MAX_TOKENS = 100
"""Of a user, without those of sign-ins."""


def visible_tokens(user: User, made_with: ApiToken | None) -> QuerySet[ApiToken]:
    """Return the tokens of the user or, with accounts.manage, of all users.

    `made_with` authenticated the request. Without the scope account.self it sees itself only.
    """
    rows = ApiToken.objects.select_related("user")
    if can(user, "accounts.manage", None):
        return rows
    if has_scope(user, "account.self") or made_with is None:
        return rows.filter(user=user)
    return rows.filter(pk=made_with.pk)


@write_transaction
def create_for(
    *,
    username: str,
    name: str,
    actor: User,
    made_with: ApiToken | None,
    lifetime: timedelta | None = None,
    scopes: Sequence[str] | None = None,
    networks: Sequence[str] | None = None,
) -> tuple[ApiToken, str]:
    """Create a token of the actor, or of a service account. Returns the row and the text.

    `made_with` authenticated the request. Raises ApplianceError NOT_FOUND for an unknown user,
    DENIED for the account of another person, for a service account with privileges that the
    actor lacks, and for more than `made_with` permits, CONFLICT for one token too many. A token
    that a program has made ends with the program's token.
    """
    if actor.must_change_password:
        raise ApplianceError(
            Code.PASSWORD_CHANGE_REQUIRED, "Change the one-time password first with `busbar login`."
        )
    limits = limits_of(scopes=scopes, networks=networks, lifetime=lifetime, made_with=made_with)
    owner = User.objects.get(pk=actor.pk)
    if username and username != actor.username:
        if not can(actor, "accounts.manage", None):
            raise denied("accounts.manage")
        owner = find_named(User, noun="User", column="username", name=username)
        if owner.has_usable_password():
            raise ApplianceError(
                Code.DENIED,
                f"{username} is a person, who creates tokens with the own password. Tokens of "
                "others are for service accounts.",
            )
        require_authority_over(actor, owner)
    elif not has_scope(actor, "account.self"):
        raise denied("account.self")
    require_few_tokens(owner)
    parent = made_with if made_with is not None and not made_with.is_sign_in else None
    return token_create(user=owner, name=name, made_with=parent, **limits._asdict())


def require_few_tokens(owner: User) -> None:
    """Raise ApplianceError CONFLICT if the user has MAX_TOKENS that sign-ins have not made."""
    ApiToken.objects.filter(user=owner, expires_at__lt=timezone.now()).delete()
    if ApiToken.objects.filter(user=owner, is_sign_in=False).count() >= MAX_TOKENS:
        raise ApplianceError(
            Code.CONFLICT,
            f"{owner.username} has {MAX_TOKENS} tokens. Revoke those that are not in use: "
            "`busbar token list` shows the last use.",
        )


@write_transaction
def revoke(*, token_id: UUID, actor: User, made_with: ApiToken | None) -> None:
    """Revoke a token of the actor or, with accounts.manage, of another user.

    Raises ApplianceError DENIED if the other user has privileges that the actor lacks. Without
    the scope account.self, other tokens of the actor count as those of another user.
    """
    token = ApiToken.objects.select_related("user").get(pk=token_id)
    is_itself = made_with is not None and token.pk == made_with.pk
    is_own = token.user_id == actor.pk and has_scope(actor, "account.self")
    if not is_itself and not is_own:
        require_authority_over(actor, token.user)
    token_revoke(token_id=token.pk)
