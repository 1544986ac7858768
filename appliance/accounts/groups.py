"""Create, change and delete groups and their members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from appliance.accounts.actions import (
    Action,
    Refusals,
    raise_refusal,
    register_kind,
)
from appliance.accounts.administrators import Administrators
from appliance.accounts.bindings import Grant, Row, held_of, parents_of_groups, with_ancestors
from appliance.accounts.delegation import covered_refusals, require_administrator
from appliance.accounts.models import Group, GroupMember, RoleBinding, User
from appliance.accounts.named_rows import create_named, find_named, lock, save_changes
from appliance.accounts.permissions import can
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record_created, record_deleted
from appliance.db.prepared import Delete
from appliance.db.writer import write_transaction

DELETE_MEMBERS = Delete(lambda group_id: GroupMember.objects.filter(group_id=group_id))
"""Deletes them without a signal for each. The group has one, which announces the change."""


@write_transaction
def group_create(*, values: Mapping[str, Any]) -> Group:
    """Create a group. Raises ApplianceError CONFLICT if the name is taken."""
    return create_named(Group, noun="Group", **values)


@write_transaction
def group_update(*, group_id: UUID, values: Mapping[str, Any], actor: User) -> Group:
    """Change a group.

    Programs bind roles and add members by name, so the name decides who gets them. Raises
    ApplianceError DENIED if the group has privileges that the actor lacks, CONFLICT if the name is
    taken.
    """
    group = lock(Group, group_id)
    require_authority(actor, group)
    return save_changes(group, "Group", values)


@write_transaction
def group_delete(*, group_id: UUID, actor: User) -> None:
    """Delete a group and its role bindings. Its members stay.

    Raises ApplianceError DENIED if the group has privileges that the actor lacks, CONFLICT if no
    administrator would be left.
    """
    group = lock(Group, group_id)
    require_authority(actor, group)
    record_deleted(group)
    DELETE_MEMBERS(group_id=group.pk)
    group.delete()
    require_administrator()


@write_transaction
def member_add(*, group_id: UUID, actor: User, user: str = "", group: str = "") -> GroupMember:
    """Add a user or a group. Returns the existing membership if there is one.

    Raises ApplianceError NOT_FOUND for an unknown name, CONFLICT if groups would form a circle,
    DENIED if the group has privileges that the actor lacks.
    """
    container = lock(Group, group_id)
    require_authority(actor, container)
    if user:
        person = find_named(User, noun="User", column="username", name=user)
        return ensure_member(group=container, user=person)
    member = find_named(Group, noun="Group", name=group)
    if member.pk in with_ancestors([container.pk], parents_of_groups()):
        raise ApplianceError(
            Code.CONFLICT,
            f"Group {container.name} is in group {member.name} already, so {member.name} cannot be "
            f"in {container.name}.",
        )
    return ensure_member(group=container, member_group=member)


def ensure_member(**columns: Any) -> GroupMember:
    """Return the existing or new membership. Only a new one is recorded."""
    member, created = GroupMember.objects.get_or_create(**columns)
    if created:
        record_created(member)
    return member


@write_transaction
def member_remove(*, member_id: UUID, actor: User) -> None:
    """End a membership.

    Raises ApplianceError DENIED if the group has privileges that the actor lacks, CONFLICT if no
    administrator would be left.
    """
    member = GroupMember.objects.select_related("group").get(pk=member_id)
    require_authority(actor, member.group)
    record_deleted(member)
    member.delete()
    require_administrator()


def grants_of_groups(groups: Sequence[Group]) -> list[list[Grant]]:
    """Return what members have, or may get, through each group and the groups above it.

    The number of queries does not depend on the groups.
    """
    parents = parents_of_groups()
    holders = [with_ancestors([group.pk], parents) for group in groups]
    bindings = RoleBinding.objects.filter(group_id__in=set().union(*holders))
    rows = [Row(*columns) for columns in bindings.values_list(*Row._fields)]
    by_group: dict[UUID | None, list[Grant]] = {}
    for row, found in zip(rows, held_of(rows, future=True), strict=True):
        by_group.setdefault(row.group_id, []).extend(found.grants)
    return [[grant for g in held for grant in by_group.get(g, ())] for held in holders]


def require_authority(actor: User, group: Group) -> None:
    """Raise ApplianceError DENIED if the group has a privilege that the actor lacks."""
    for refusal in authority_refusals(actor, [group]):
        raise_refusal(refusal)


def authority_refusals(actor: User, groups: Sequence[Group]) -> Refusals:
    return covered_refusals(actor, grants_of_groups(groups))


def deletion_refusals(actor: User, groups: Sequence[Group]) -> Refusals:
    administrators = Administrators()
    return [
        authority or administrators.refusal(without_group=group.pk)
        for group, authority in zip(groups, authority_refusals(actor, groups), strict=True)
    ]


def visible_groups(viewer: User) -> QuerySet[Group]:
    return Group.objects.all() if can(viewer, MANAGE, None) else Group.objects.none()


MANAGE = "accounts.manage"
GROUPS = register_kind("groups", visible_groups)
RENAME = GROUPS.add(Action("rename", MANAGE, authority_refusals))
ADD_MEMBER = GROUPS.add(Action("add_member", MANAGE, authority_refusals))
DELETE = GROUPS.add(Action("delete", MANAGE, deletion_refusals))
