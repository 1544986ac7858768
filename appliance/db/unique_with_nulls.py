"""Unique constraints for which null equals null, on each database.

SQLite has no NULLS NOT DISTINCT, and Django leaves such a constraint out there. An index of
expressions works on both.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import F, UniqueConstraint, UUIDField, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from appliance.db.change_log import NO_ID


def unique_with_nulls(
    *, ids: Sequence[str], name: str, others: Sequence[str] = ()
) -> UniqueConstraint:
    """Return a constraint on columns of ids, which may be null, and on others, which may not."""
    no_id = Value(NO_ID, output_field=UUIDField())
    columns: list[Combinable] = [Coalesce(F(column), no_id) for column in ids]
    columns += map(F, others)
    return UniqueConstraint(*columns, name=name)
