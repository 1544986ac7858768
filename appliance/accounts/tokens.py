"""API tokens that users make for programs, and their revocation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from appliance.accounts.actions import Action, Refusals, raise_refusal, register_kind
from appliance.accounts.authorization import SELF, denied
from appliance.accounts.delegation import authority_refusals, require_authority_over
from appliance.accounts.models import ApiToken, User
from appliance.accounts.named_rows import find_named
from appliance.accounts.permissions import can, has_scope, token_id_of
from appliance.accounts.second_factor_policy import require_second_factor
from appliance.accounts.services import token_create, token_revoke
from appliance.accounts.token_limits import limits_of
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction

MAX_TOKENS = 100
"""Of a user, without those of sign-ins."""


def visible_tokens(user: User) -> QuerySet[ApiToken]:
    """Return the tokens of the user or, with accounts.manage, of all users.

    A token without the scope account.self sees itself only.
    """
    rows = ApiToken.objects.select_related("user")
    if can(user, "accounts.manage", None):
        return rows
    token_id = token_id_of(user)
    if has_scope(user, SELF) or token_id is None:
        return rows.filter(user=user)
    return rows.filter(pk=token_id)


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
    require_second_factor(actor)
    limits = limits_of(scopes=scopes, networks=networks, lifetime=lifetime, made_with=made_with)
    owner = User.objects.get(pk=actor.pk)
    if username and username != actor.username:
        if not can(actor, "accounts.manage", None):
            raise denied("accounts.manage")
        owner = find_named(User, noun="User", column="username", name=username)
        if not owner.is_service:
            raise ApplianceError(
                Code.DENIED,
                f"{username} is a person, who creates tokens with the own password. Tokens of "
                "others are for service accounts.",
            )
        require_authority_over(actor, owner)
    elif not has_scope(actor, SELF):
        raise denied(SELF)
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
def revoke(*, token_id: UUID, actor: User) -> None:
    """Revoke a token of the actor or, with accounts.manage, of another user.

    Raises ApplianceError DENIED if the other user has privileges that the actor lacks. Without
    the scope account.self, other tokens of the actor count as those of another user.
    """
    token = ApiToken.objects.select_related("user").get(pk=token_id)
    for refusal in revocation_refusals(actor, [token]):
        raise_refusal(refusal)
    token_revoke(token_id=token.pk)


def revocation_refusals(actor: User, tokens: Sequence[ApiToken]) -> Refusals:
    others = [token for token in tokens if not is_own(actor, token)]
    if not others:
        return [None] * len(tokens)
    refusals = authority_refusals(actor, [token.user for token in others])
    found = dict(zip((token.pk for token in others), refusals, strict=True))
    return [found.get(token.pk) for token in tokens]


def is_own(actor: User, token: ApiToken) -> bool:
    """Return whether the token authenticated the actor, or is one that the actor may manage."""
    if token.pk == token_id_of(actor):
        return True
    return token.user_id == actor.pk and has_scope(actor, SELF)


TOKENS = register_kind("tokens", visible_tokens)
REVOKE = TOKENS.add(Action("revoke", SELF, revocation_refusals))
