"""Names and ids of quota subjects: users, projects and departments."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from appliance.accounts.models import Department, Project, User
from appliance.api.errors import ApplianceError, Code
from appliance.pools.models import Quota
from appliance.pools.subject_kind import SubjectKind


def find_subject_id(kind: SubjectKind, name: str) -> UUID:
    """Return the id of a user, project or department. Raises ApplianceError NOT_FOUND."""
    row: User | Project | Department | None
    if kind is SubjectKind.USER:
        row = User.objects.filter(username=name).first()
    elif kind is SubjectKind.PROJECT:
        row = Project.objects.filter(name=name).first()
    else:
        row = Department.objects.filter(name=name).first()
    if row is None:
        raise ApplianceError(Code.NOT_FOUND, f"{kind.capitalize()} {name} not found.")
    return UUID(str(row.pk))


def subject_names(quotas: Sequence[Quota]) -> dict[UUID, str]:
    """Return the name of each quota's subject by its id."""
    ids = [q.subject_id for q in quotas]
    return {
        **dict(User.objects.filter(pk__in=ids).values_list("pk", "username")),
        **dict(Project.objects.filter(pk__in=ids).values_list("pk", "name")),
        **dict(Department.objects.filter(pk__in=ids).values_list("pk", "name")),
    }
