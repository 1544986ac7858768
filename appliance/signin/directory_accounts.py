"""Accounts of people in the directory: created by their first sign-in, kept in step with it."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.utils import timezone

from appliance.accounts.models import GroupMember, Source, User
from appliance.accounts.named_rows import lock
from appliance.accounts.users import save_user
from appliance.db.writer import write_transaction
from appliance.signin.directory_entry import Entry
from appliance.signin.external_accounts import new_identity, set_groups
from appliance.signin.models import ExternalIdentity

ISSUER = "ldap"


@write_transaction
def adopt(entry: Entry) -> User:
    """Return the account of a person whose password was right; the first time it is created.

    Raises ApplianceError CONFLICT if another account has the name.
    """
    identity = (
        ExternalIdentity.objects.select_related("user")
        .filter(issuer=ISSUER, subject=entry.subject)
        .first()
    )
    if identity is None:
        identity = new_identity(
            issuer=ISSUER,
            subject=entry.subject,
            username=entry.username,
            email=entry.email,
            source=Source.LDAP,
        )
    return follow(identity, entry)


def is_in_step(identity: ExternalIdentity, entry: Entry) -> bool:
    """Return whether `follow` would change nothing. Costs one read and no transaction."""
    mapping: Mapping[str, str] = settings.ENVIRONMENT.ldap_groups
    managed = GroupMember.objects.filter(
        user_id=identity.user_id, group__name__in=set(mapping.values())
    )
    return (
        identity.missing_since is None
        and identity.user.email == entry.email
        and set(managed.values_list("group__name", flat=True))
        == {mapping[dn] for dn in entry.groups}
    )


@write_transaction
def follow(identity: ExternalIdentity, entry: Entry) -> User:
    """Bring the account in step with the entry: address, groups, and the end of an absence."""
    user = lock(User, identity.user_id)
    columns: dict[str, object] = {"email": entry.email}
    if identity.missing_since is not None:
        columns["is_active"] = True
        ExternalIdentity.objects.filter(pk=identity.pk).update(missing_since=None)
    if any(getattr(user, name) != value for name, value in columns.items()):
        user = save_user(user, columns)
    mapping: Mapping[str, str] = settings.ENVIRONMENT.ldap_groups
    set_groups(user, set(mapping.values()), {mapping[dn] for dn in entry.groups})
    return user


@write_transaction
def mark_missing(identity: ExternalIdentity) -> None:
    """End the access of an account whose entry is gone: tokens, sockets and allocations."""
    user = lock(User, identity.user_id)
    if not user.is_active:
        return  # ended by an administrator, who alone restores it
    save_user(user, {"is_active": False})
    ExternalIdentity.objects.filter(pk=identity.pk).update(missing_since=timezone.now())
