"""Accounts of the appliance that become accounts of people in the directory."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password

from appliance.accounts.delegation import require_administrator
from appliance.accounts.models import Source, User
from appliance.accounts.named_rows import lock, save_changes
from appliance.accounts.services import store_password
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction
from appliance.signin import second_factors
from appliance.signin.directory_accounts import ISSUER, follow
from appliance.signin.directory_entry import Entry
from appliance.signin.models import ExternalIdentity


@write_transaction
def link(*, user: User, entry: Entry) -> User:
    """Let the person of this entry sign in to an account, in place of its password.

    Roles, allocations and history stay; all tokens end, and second factors with passkeys: the
    earlier owner would sign in with them. For the administrator of the machine only: the person
    gets all privileges of the account. Raises ApplianceError CONFLICT for an account
    without a password, a person who has an account, a name of another account, and the last
    administrator with a password.
    """
    user = lock(User, user.pk)
    require_linkable(user, entry)
    store_password(user=user, encoded=make_password(None), expires_at=None)
    save_changes(user, "User", {"source": Source.LDAP})
    if user.second_factor_since:
        second_factors.delete(user)
    identity = ExternalIdentity.objects.create(user=user, issuer=ISSUER, subject=entry.subject)
    require_administrator()
    return follow(identity, entry)


def require_linkable(user: User, entry: Entry) -> None:
    if user.is_service or user.source:
        raise ApplianceError(Code.CONFLICT, f"{user.username} has no password on this appliance.")
    known = ExternalIdentity.objects.filter(issuer=ISSUER, subject=entry.subject)
    if (identity := known.select_related("user").first()) is not None:
        raise ApplianceError(
            Code.CONFLICT,
            f"The account of {entry.username} is {identity.user.username}. Delete it first.",
        )
    if User.objects.filter(username=entry.username).exclude(pk=user.pk).exists():
        raise ApplianceError(
            Code.CONFLICT,
            f"There is another account with the name {entry.username}, whose password is here. "
            "Rename or delete it first.",
        )
