"""Create, change and delete quotas."""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError, transaction

from appliance.activity.events import emit
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction
from appliance.pools.models import Quota
from appliance.pools.services import save_columns
from appliance.pools.subject_kind import SubjectKind
from appliance.pools.subjects import find_subject_id


@write_transaction
def create_quota(*, kind: SubjectKind, subject: str, actor: str, **columns: object) -> Quota:
    """Create a quota. Raises ApplianceError CONFLICT if the subject has one already."""
    try:
        with transaction.atomic():
            quota = Quota.objects.create(
                subject_kind=kind, subject_id=find_subject_id(kind, subject), **columns
            )
    except IntegrityError:
        raise ApplianceError(
            Code.CONFLICT, f"The {kind} {subject} already has a quota. Change that quota."
        ) from None
    emit(
        "quota.created",
        path=quota.path,
        object_id=quota.pk,
        actor=actor,
        message=f"Quota of {kind} {subject} created.",
        values=json_values(columns),
    )
    return quota


def json_values(columns: dict[str, object]) -> dict[str, object]:
    return {k: v for k, v in columns.items() if isinstance(v, int | float | str | None)}


@write_transaction
def update_quota(*, quota_id: UUID, actor: str, **columns: object) -> Quota:
    quota = Quota.objects.select_for_update().get(pk=quota_id)
    if any(getattr(quota, key) != value for key, value in columns.items()):
        save_columns(quota, columns)
        emit(
            "quota.changed",
            path=quota.path,
            object_id=quota.pk,
            actor=actor,
            message=f"Quota of a {quota.subject_kind} changed.",
            values=json_values(columns),
        )
    return quota


@write_transaction
def delete_quota(*, quota_id: UUID, actor: str) -> None:
    quota = Quota.objects.get(pk=quota_id)
    path = quota.path
    quota.delete()
    emit(
        "quota.deleted",
        path=path,
        object_id=quota_id,
        actor=actor,
        message=f"Quota of a {quota.subject_kind} deleted.",
    )
