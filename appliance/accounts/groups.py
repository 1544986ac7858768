"""Create, change and delete groups and their members."""

from __future__ import annotations

from uuid import UUID

from appliance.accounts.bindings import Grant, Row, grants_of, parents_of_groups, with_ancestors
from appliance.accounts.delegation import require_administrator, require_covered
from appliance.accounts.models import Group, GroupMember, RoleBinding, User
from appliance.accounts.named_rows import create_named, find_named, lock, save_changes
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction


@write_transaction
def group_create(*, name: str) -> Group:
    """Create a group. Raises ApplianceError CONFLICT if the name is taken."""
    return create_named(Group, noun="Group", name=name)


@write_transaction
def group_rename(*, group_id: UUID, name: str) -> Group:
    return save_changes(lock(Group, group_id), "Group", {"name": name})


@write_transaction
def group_delete(*, group_id: UUID, actor: User) -> None:
    """Delete a group and its role bindings. Its members stay.

    Raises ApplianceError DENIED if the group has privileges that the actor lacks, CONFLICT if no
    administrator would be left.
    """
    group = lock(Group, group_id)
    require_covered(actor, grants_of_group(group))
    group.delete()
    require_administrator()


@write_transaction
def member_add(*, group_id: UUID, actor: User, user: str = "", group: str = "") -> GroupMember:
    """Add a user or a group. Returns the existing membership if there is one.

    Raises ApplianceError NOT_FOUND for an unknown name, CONFLICT if groups would form a circle,
    DENIED if the group has privileges that the actor lacks.
    """
    container = lock(Group, group_id)
    require_covered(actor, grants_of_group(container))
    if user:
        person = find_named(User, noun="User", column="username", name=user)
        return GroupMember.objects.get_or_create(group=container, user=person)[0]
    member = find_named(Group, noun="Group", name=group)
    if member.pk in with_ancestors([container.pk], parents_of_groups()):
        raise ApplianceError(
            Code.CONFLICT,
            f"Group {container.name} is in group {member.name} already, so {member.name} cannot be "
            f"in {container.name}.",
        )
    return GroupMember.objects.get_or_create(group=container, member_group=member)[0]


@write_transaction
def member_remove(*, member_id: UUID, actor: User) -> None:
    """End a membership.

    Raises ApplianceError DENIED if the group has privileges that the actor lacks, CONFLICT if no
    administrator would be left.
    """
    member = GroupMember.objects.select_related("group").get(pk=member_id)
    require_covered(actor, grants_of_group(member.group))
    member.delete()
    require_administrator()


def grants_of_group(group: Group) -> list[Grant]:
    """Return what members have, or may get, through the group and the groups above it."""
    groups = with_ancestors([group.pk], parents_of_groups())
    rows = RoleBinding.objects.filter(group_id__in=groups).values_list(*Row._fields)
    return [grant for found in grants_of(map(Row._make, rows), future=True) for grant in found]
