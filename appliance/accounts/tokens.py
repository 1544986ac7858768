"""API tokens that users make for programs, and their revocation."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from appliance.accounts.authorization import denied
from appliance.accounts.delegation import require_authority_over
from appliance.accounts.models import ApiToken, User
from appliance.accounts.named_rows import find_named
from appliance.accounts.permissions import can
from appliance.accounts.services import token_create, token_revoke
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction


@write_transaction
def create_for(
    *, username: str, name: str, lifetime: timedelta, actor: User
) -> tuple[ApiToken, str]:
    """Create a token of the actor, or of a service account. Returns the row and the text.

    Raises ApplianceError NOT_FOUND for an unknown user, DENIED for the account of another
    person, and for a service account with privileges that the actor lacks.
    """
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
    return token_create(user=owner, name=name, lifetime=lifetime)


@write_transaction
def revoke(*, token_id: UUID, actor: User) -> None:
    """Revoke a token of the actor or, with accounts.manage, of another user.

    Raises ApplianceError DENIED if the other user has privileges that the actor lacks.
    """
    token = ApiToken.objects.select_related("user").get(pk=token_id)
    if token.user_id != actor.pk:
        require_authority_over(actor, token.user)
    token_revoke(token_id=token.pk)
