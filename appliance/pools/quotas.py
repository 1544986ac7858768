"""Create, change and delete quotas."""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError, transaction

from appliance.accounts.actions import Action, register_kind
from appliance.activity.events import emit
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed, record_created, record_deleted
from appliance.db.change_log import NO_ID
from appliance.db.writer import write_transaction
from appliance.pools.models import Quota
from appliance.pools.services import MANAGE, save_columns
from appliance.pools.subject_kind import SubjectKind
from appliance.pools.subjects import find_subject_id


@write_transaction
def create_quota(*, kind: SubjectKind, subject: str, actor: str, **columns: object) -> Quota:
    """Create a quota.

    Raises ApplianceError CONFLICT if the subject has one already, INVALID for a limit below it.
    """
    check_limit(columns.get("quota_percent"), columns.get("limit_percent"))
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
        project_id=event_project(quota),
        actor=actor,
        message=f"Quota of {kind} {subject} created.",
        values=json_values(columns),
    )
    record_created(quota)
    return quota


def event_project(quota: Quota) -> UUID:
    """Return the project of events of a quota.

    For users and departments none that exists: only appliance-wide roles show these events.
    """
    return quota.subject_id if quota.subject_kind == SubjectKind.PROJECT else NO_ID


def check_limit(quota_percent: object, limit_percent: object) -> None:
    """Raise ApplianceError INVALID if the limit is below the quota, which it would make void."""
    if not isinstance(quota_percent, int) or not isinstance(limit_percent, int):
        return
    if limit_percent < quota_percent:
        raise ApplianceError(
            Code.INVALID,
            f"The limit of {limit_percent / 100:g} GPUs is below the quota of "
            f"{quota_percent / 100:g}. Raise the limit or lower the quota.",
        )


def json_values(columns: dict[str, object]) -> dict[str, object]:
    return {k: v for k, v in columns.items() if isinstance(v, int | float | str | None)}


@write_transaction
def update_quota(*, quota_id: UUID, actor: str, **columns: object) -> Quota:
    """Change a quota. Raises ApplianceError INVALID for a limit below the quota."""
    quota = Quota.objects.select_for_update().get(pk=quota_id)
    check_limit(
        columns.get("quota_percent", quota.quota_percent),
        columns.get("limit_percent", quota.limit_percent),
    )
    before = values_of(quota)
    if any(getattr(quota, key) != value for key, value in columns.items()):
        save_columns(quota, columns)
        emit(
            "quota.changed",
            path=quota.path,
            object_id=quota.pk,
            project_id=event_project(quota),
            actor=actor,
            message=f"Quota of a {quota.subject_kind} changed.",
            values=json_values(columns),
        )
    record_changed(quota, before)
    return quota


@write_transaction
def delete_quota(*, quota_id: UUID, actor: str) -> None:
    quota = Quota.objects.get(pk=quota_id)
    path = quota.path
    record_deleted(quota)
    quota.delete()
    emit(
        "quota.deleted",
        path=path,
        object_id=quota_id,
        project_id=event_project(quota),
        actor=actor,
        message=f"Quota of a {quota.subject_kind} deleted.",
    )


QUOTAS = register_kind("quotas", Quota.objects.visible_to)
UPDATE = QUOTAS.add(Action[Quota]("update", MANAGE))
DELETE = QUOTAS.add(Action[Quota]("delete", MANAGE))
