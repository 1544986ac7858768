"""Rows with unique names: creation and renaming with a conflict in place of a database error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

from django.db import IntegrityError, models, transaction

from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed, record_created

M = TypeVar("M", bound=models.Model)


def create_named(model: type[M], *, noun: str, name: str, **columns: object) -> M:
    """Create a row and record it. Raises ApplianceError CONFLICT if the name is taken."""
    try:
        with transaction.atomic():
            row = model._default_manager.create(name=name, **columns)
    except IntegrityError:
        raise taken(noun, name) from None
    record_created(row)
    return row


def save_changes(row: M, noun: str, columns: Mapping[str, object]) -> M:
    """Save changed columns, increment the version, and record the operation.

    A row that equals the columns is not written.

    Raises ApplianceError CONFLICT if the name is taken.
    """
    changed = {key: value for key, value in columns.items() if getattr(row, key) != value}
    before = values_of(row)
    if changed:
        for key, value in changed.items():
            setattr(row, key, value)
        row.version += 1  # type: ignore[attr-defined]  # all models with names have one
        try:
            with transaction.atomic():
                row.save(update_fields=[*changed, "version"])
        except IntegrityError:
            raise taken(noun, str(columns.get("name"))) from None
    record_changed(row, before)
    return row


def taken(noun: str, name: str) -> ApplianceError:
    return ApplianceError(Code.CONFLICT, f'{noun} "{name}" already exists; choose another name.')


def find_named(model: type[M], *, noun: str, column: str = "name", name: str) -> M:
    """Return the row with this name. Raises ApplianceError NOT_FOUND."""
    row = model._default_manager.filter(**{column: name}).first()
    if row is None:
        raise not_found(noun, name)
    return row


def not_found(noun: str, name: str) -> ApplianceError:
    return ApplianceError(Code.NOT_FOUND, f'{noun} "{name}" not found.')


def lock(model: type[M], row_id: UUID) -> M:
    """Return the row for a change in the current transaction.

    Raises ApplianceError NOT_FOUND for a row that was deleted since it was read.
    """
    row = model._default_manager.select_for_update(no_key=True).filter(pk=row_id).first()
    if row is None:
        raise ApplianceError(Code.NOT_FOUND, "The object was deleted meanwhile.")
    return row
