"""Role bindings of users: their own, and those of the groups that they are in.

A binding in a department holds in each of its projects. A binding grants; nothing denies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q

from appliance.accounts.models import CustomRole, GroupMember, Project, RoleBinding
from appliance.accounts.privileges import APPLIANCE_ONLY, PRIVILEGES


class Grant(NamedTuple):
    """Privileges in one project, or on the whole appliance if the project is None."""

    privileges: frozenset[str]
    project_id: UUID | None


class Row(NamedTuple):
    """Columns of a binding; the fields are Django lookups."""

    user_id: UUID | None
    group_id: UUID | None
    role: str
    project_id: UUID | None
    department_id: UUID | None


def grants_by_user(user_ids: Collection[UUID], *, future: bool = False) -> dict[UUID, list[Grant]]:
    """Return the grants of each user. The number of queries does not depend on the users.

    See `grants_of` for `future`.
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
    found: dict[UUID, list[Grant]] = {user_id: [] for user_id in user_ids}
    for row, grants in zip(rows, grants_of(rows, future=future), strict=True):
        holder = row.user_id or row.group_id
        for user_id in holders[holder] if holder else ():
            found[user_id] += grants
    return found


def grants_of(rows: Iterable[Row], *, future: bool = False) -> list[list[Grant]]:
    """Return the grants of each binding, with at most two queries.

    With `future`, a binding in a department grants what it can ever grant: any project may move
    into the department, so its privileges count as those on the whole appliance.
    """
    rows = list(rows)
    privileges = privileges_of_roles({row.role for row in rows})
    if future:
        return [[Grant(granted(privileges[r.role], place_of(r)), r.project_id)] for r in rows]
    projects = projects_of({row.department_id for row in rows if row.department_id})
    return [
        [
            Grant(granted(privileges[row.role], project_id), project_id)
            for project_id in (
                projects.get(row.department_id, []) if row.department_id else [row.project_id]
            )
        ]
        for row in rows
    ]


def place_of(row: Row) -> UUID | None:
    """Return the project or department of a binding, or None for the whole appliance."""
    return row.project_id or row.department_id


def granted(privileges: frozenset[str], place_id: UUID | None) -> frozenset[str]:
    """Return the part of a role's privileges that a binding in this place grants."""
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
