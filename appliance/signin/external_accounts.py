"""Accounts of people whom another place identifies: the directory or an identity provider."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password

from appliance.accounts.groups import ensure_member, group_create
from appliance.accounts.models import Group, GroupMember, Source, User
from appliance.accounts.users import require_distinct_name
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record_created, record_deleted
from appliance.db import origin
from appliance.signin.models import ExternalIdentity


def new_identity(
    *, issuer: str, subject: str, username: str, email: str, source: Source
) -> ExternalIdentity:
    """Create an account without a password for a person of this issuer, and record it.

    An account with this name is never taken over: who manages the other place could choose the
    name of an administrator. Raises ApplianceError CONFLICT for it, INVALID for a name that could
    be taken for another one in the audit.
    """
    require_distinct_name(username)
    if User.objects.filter(username=username).exists():
        raise ApplianceError(
            Code.CONFLICT,
            f"There is another account with the name {username}. An administrator can "
            "delete it; or the directory or provider gives this person another name.",
        )
    origin.act_as(username)
    user = User.objects.create(
        username=username, email=email, password=make_password(None), source=source
    )
    record_created(user)
    return ExternalIdentity.objects.create(user=user, issuer=issuer, subject=subject)


def set_groups(user: User, managed: set[str], wanted: set[str]) -> None:
    """Make the user a member of the wanted ones of the managed groups, and of no others of them."""
    member_of = GroupMember.objects.filter(user=user, group__name__in=managed)
    present = {member.group.name: member for member in member_of.select_related("group")}
    for name in present.keys() - wanted:
        record_deleted(present[name])
        present[name].delete()
    for name in sorted(wanted - present.keys()):
        group = Group.objects.filter(name=name).first() or group_create(values={"name": name})
        ensure_member(group=group, user=user)
