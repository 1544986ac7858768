"""Limits of what one account may do to another: no user grants or changes more than they have.

The last administrator stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.contrib.auth.hashers import is_password_usable

from appliance.accounts.bindings import Grant, granted, grants_by_user, privileges_of_roles
from appliance.accounts.models import Project, RoleBinding, User
from appliance.accounts.permissions import grants
from appliance.accounts.privileges import ADMINISTER
from appliance.api.errors import ApplianceError, Code


def require_covered(actor: User, wanted: Iterable[Grant]) -> None:
    """Raise ApplianceError DENIED if the actor lacks a privilege of these grants."""
    own = grants(actor)
    for privileges, project_id in wanted:
        missing = privileges.difference(
            *(g.privileges for g in own if g.project_id in (None, project_id))
        )
        if missing:
            raise ApplianceError(
                Code.DENIED,
                "You cannot grant, change or end privileges that you do not have "
                f"{where(project_id)}: {', '.join(sorted(missing))}.",
            )


def where(project_id: UUID | None) -> str:
    if project_id is None:
        return "on the whole appliance"
    name = Project.objects.filter(pk=project_id).values_list("name", flat=True).first()
    return f"in project {name}"


def require_authority_over(actor: User, user: User) -> None:
    """Raise ApplianceError DENIED if the user has, or may get, a privilege that the actor lacks."""
    require_covered(actor, grants_by_user({user.pk}, future=True)[user.pk])


def require_authority_over_members(
    actor: User, project_id: UUID, department_ids: Iterable[UUID] = ()
) -> None:
    """Raise ApplianceError DENIED if bindings grant something in a project that the actor lacks.

    These are the bindings in the project or, if departments are given, those in the departments:
    their members gain or lose these privileges when the project moves.
    """
    ids = list(department_ids)
    where_bound = {"department_id__in": ids} if ids else {"project_id": project_id}
    rows = RoleBinding.objects.filter(**where_bound).values_list("role", flat=True)
    privileges = privileges_of_roles(set(rows))
    require_covered(actor, [Grant(granted(p, project_id), project_id) for p in privileges.values()])


def require_administrator() -> None:
    """Raise ApplianceError CONFLICT if no person is left with all privileges.

    Services call it after their change, in the same transaction. Accounts that cannot sign in
    with a password do not count.
    """
    passwords = User.objects.filter(is_active=True).values_list("pk", "password")
    people = {pk for pk, encoded in passwords if is_password_usable(encoded)}
    found = grants_by_user(people)
    for given in found.values():
        everywhere = frozenset[str]().union(*(g.privileges for g in given if g.project_id is None))
        if everywhere >= ADMINISTER:
            return
    raise ApplianceError(
        Code.CONFLICT,
        "This would remove the last administrator. Give another user the role administrator first.",
    )
