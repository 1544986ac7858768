"""Limits of what one account may do to another: no user grants or changes more than they have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from django.db.models import Q

from appliance.accounts.administrators import Administrators
from appliance.accounts.bindings import Grant, granted, grants_by_user, privileges_of_roles
from appliance.accounts.models import Project, RoleBinding, User
from appliance.accounts.permissions import grants
from appliance.api.errors import ApplianceError, Code


def require_covered(actor: User, wanted: Iterable[Grant]) -> None:
    """Raise ApplianceError DENIED if the actor lacks a privilege of these grants."""
    for refusal in covered_refusals(actor, [list(wanted)]):
        if refusal is not None:
            raise refusal


def covered_refusals(actor: User, wanted: Sequence[Sequence[Grant]]) -> list[ApplianceError | None]:
    """Return the error for each list of grants of which the actor lacks a privilege.

    Reads the names of all projects that the errors name with one query.
    """
    missing = [first_missing(actor, granted) for granted in wanted]
    projects = {grant.project_id for grant in missing if grant and grant.project_id}
    rows = Project.objects.filter(pk__in=projects).values_list("pk", "name") if projects else ()
    names = dict(rows)
    return [
        ApplianceError(
            Code.DENIED,
            "You cannot grant, change or end privileges that you do not have "
            f"{where(grant, names)}: {', '.join(sorted(grant.privileges))}.",
        )
        if grant
        else None
        for grant in missing
    ]


def first_missing(actor: User, wanted: Iterable[Grant]) -> Grant | None:
    """Return the privileges that the actor lacks of the first grant that is not covered."""
    own = grants(actor)
    for privileges, project_id in wanted:
        missing = privileges.difference(
            *(g.privileges for g in own if g.project_id in (None, project_id))
        )
        if missing:
            return Grant(missing, project_id)
    return None


def where(grant: Grant, names: Mapping[UUID, str]) -> str:
    if grant.project_id is None:
        return "on the whole appliance"
    return f"in project {names.get(grant.project_id)}"


def require_authority_over(actor: User, user: User) -> None:
    """Raise ApplianceError DENIED if the user has, or may get, a privilege that the actor lacks."""
    require_covered(actor, grants_by_user({user.pk}, future=True)[user.pk])


def bound_refusals(
    actor: User, wanted: Sequence[tuple[UUID | None, Collection[UUID]]]
) -> list[ApplianceError | None]:
    """Return the error for each project in which bindings grant something that the actor lacks.

    Each item names a project, or None for the whole appliance, and the projects and departments
    whose bindings count. The number of queries does not depend on the items.
    """
    places = set[UUID]().union(*(bound for _, bound in wanted))
    if not places:
        return [None] * len(wanted)
    rows = list(
        RoleBinding.objects.filter(
            Q(project_id__in=places) | Q(department_id__in=places)
        ).values_list("project_id", "department_id", "role")
    )
    privileges = privileges_of_roles({role for *_, role in rows})
    held: dict[UUID | None, frozenset[str]] = {}
    for project_id, department_id, role in rows:
        place = project_id or department_id
        held[place] = held.get(place, frozenset()) | granted(privileges[role], place)
    none = frozenset[str]()
    return covered_refusals(
        actor,
        [[Grant(none.union(*(held.get(b, none) for b in bound)), at)] for at, bound in wanted],
    )


def authority_refusals(actor: User, users: Sequence[User]) -> list[ApplianceError | None]:
    """Return the error of `require_authority_over` for each user."""
    found = grants_by_user({user.pk for user in users}, future=True)
    return covered_refusals(actor, [found[user.pk] for user in users])


def require_administrator() -> None:
    """Raise ApplianceError CONFLICT if no person is left with all privileges.

    Services call it after their change, in the same transaction.
    """
    refusal = Administrators().refusal()
    if refusal is not None:
        raise refusal
