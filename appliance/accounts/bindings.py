"""Role bindings of users: their own, and those of the groups that they are in.

A binding in a department holds in each of its projects. One at a site, node, GPU or pool holds
there and below, and in no project. A binding grants; nothing denies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q

from appliance.accounts.models import CustomRole, GroupMember, Project, RoleBinding
from appliance.accounts.privileges import APPLIANCE_ONLY, INVENTORY, PRIVILEGES


class Grant(NamedTuple):
    """Privileges in one project, or on the whole appliance if the project is None."""

    privileges: frozenset[str]
    project_id: UUID | None


class InventoryGrant(NamedTuple):
    """Privileges at a site, node, GPU or pool, and at what lies below it."""

    privileges: frozenset[str]
    place_id: UUID


class Held(NamedTuple):
    """The privileges that bindings grant, apart for the tenancy and for the inventory."""

    grants: list[Grant]
    inventory: list[InventoryGrant]


class Row(NamedTuple):
    """Columns of a binding; the fields are Django lookups."""

    user_id: UUID | None
    group_id: UUID | None
    role: str
    project_id: UUID | None
    department_id: UUID | None
    site_id: UUID | None
    node_id: UUID | None
    gpu_id: UUID | None
    pool_id: UUID | None

    @property
    def inventory_id(self) -> UUID | None:
        """The place of a binding in the inventory."""
        return self.site_id or self.node_id or self.gpu_id or self.pool_id


def grants_by_user(user_ids: Collection[UUID], *, future: bool = False) -> dict[UUID, list[Grant]]:
    """Return the grants of each user, without those in the inventory.

    See `held_of` for `future`.
    """
    found = held_by_user(user_ids, future=future)
    return {user_id: held.grants for user_id, held in found.items()}


def held_by_user(user_ids: Collection[UUID], *, future: bool = False) -> dict[UUID, Held]:
    """Return what each user holds. The number of queries does not depend on the users.

    See `held_of` for `future`.
    """
    groups = groups_by_user(user_ids)
    holders: dict[UUID, list[UUID]] = {user_id: [user_id] for user_id in user_ids}
    for user_id, group_ids in groups.items():
        for group_id in group_ids:
            holders.setdefault(group_id, []).append(user_id)
    rows = [
        Row(*columns)
        for columns in RoleBinding.objects.filter(
            Q(user_id__in=user_ids) | Q(group_id__in=holders.keys() - set(user_ids))
            if groups
            else Q(user_id__in=user_ids)
        ).values_list(*Row._fields)
    ]
    found = {user_id: Held([], []) for user_id in user_ids}
    for row, held in zip(rows, held_of(rows, future=future), strict=True):
        holder = row.user_id or row.group_id
        for user_id in holders[holder] if holder else ():
            found[user_id].grants.extend(held.grants)
            found[user_id].inventory.extend(held.inventory)
    return found


def held_of(rows: Iterable[Row], *, future: bool = False) -> list[Held]:
    """Return what each binding grants, with at most two queries.

    With `future`, it is what the binding can ever grant (`future_grant`).
    """
    rows = list(rows)
    privileges = privileges_of_roles({row.role for row in rows})
    if future:
        return [Held([future_grant(row, privileges[row.role])], []) for row in rows]
    projects = projects_of({row.department_id for row in rows if row.department_id})
    return [held_through(row, privileges[row.role], projects) for row in rows]


def held_through(
    row: Row, privileges: frozenset[str], projects: Mapping[UUID, Iterable[UUID]]
) -> Held:
    if row.inventory_id:
        return Held([], [InventoryGrant(privileges & INVENTORY, row.inventory_id)])
    if row.department_id:
        within = granted(privileges, row.department_id)
        return Held([Grant(within, p) for p in projects.get(row.department_id, ())], [])
    return Held([Grant(granted(privileges, row.project_id), row.project_id)], [])


def future_grant(row: Row, privileges: frozenset[str]) -> Grant:
    """Return what a binding of a role with these privileges can ever grant.

    Any project may move into a department, and any node to a site, so privileges there count as
    those on the whole appliance.
    """
    if row.inventory_id:
        return Grant(privileges & INVENTORY, None)
    return Grant(granted(privileges, row.project_id or row.department_id), row.project_id)


def row_of(binding: RoleBinding) -> Row:
    return Row(*(getattr(binding, name) for name in Row._fields))


def granted(privileges: frozenset[str], place_id: UUID | None) -> frozenset[str]:
    """Return what a role grants in a project or department; None for the whole appliance."""
    return privileges if place_id is None else privileges - APPLIANCE_ONLY


def privileges_of_roles(names: Collection[str]) -> dict[str, frozenset[str]]:
    """Return the privileges of roles by name; a role that does not exist has none."""
    found = {name: frozenset(PRIVILEGES.get(name, ())) for name in names}
    if custom := [name for name in names if name not in PRIVILEGES]:
        rows = CustomRole.objects.filter(name__in=custom).values_list("name", "privileges")
        found |= {name: frozenset(privileges) for name, privileges in rows}
    return found


def projects_of(department_ids: Collection[UUID]) -> dict[UUID, list[UUID]]:
    found: dict[UUID, list[UUID]] = {}
    if department_ids:
        rows = Project.objects.filter(department_id__in=department_ids)
        for project_id, department_id in rows.values_list("pk", "department_id"):
            found.setdefault(department_id, []).append(project_id)
    return found


def groups_by_user(user_ids: Collection[UUID]) -> dict[UUID, set[UUID]]:
    """Return the groups that each user is in, also through other groups; empty if in none."""
    direct: dict[UUID, set[UUID]] = {}
    rows = GroupMember.objects.filter(user_id__in=user_ids).values_list("user_id", "group_id")
    for user_id, group_id in rows:
        direct.setdefault(user_id, set()).add(group_id)
    if not direct:
        return direct
    parents = parents_of_groups()
    return {user_id: with_ancestors(groups, parents) for user_id, groups in direct.items()}


def parents_of_groups() -> dict[UUID, set[UUID]]:
    """Return the groups that each group is a member of. Reads all memberships of groups."""
    parents: dict[UUID, set[UUID]] = {}
    rows = GroupMember.objects.filter(member_group_id__isnull=False)
    for member_id, group_id in rows.values_list("member_group_id", "group_id"):
        parents.setdefault(member_id, set()).add(group_id)
    return parents


def with_ancestors(groups: Iterable[UUID], parents: Mapping[UUID, set[UUID]]) -> set[UUID]:
    """Return the groups and all groups above them."""
    found: set[UUID] = set()
    pending = list(groups)
    while pending:
        group_id = pending.pop()
        if group_id not in found:
            found.add(group_id)
            pending += parents.get(group_id, ())
    return found
