"""Objects at which privileges are asked for, named as `KIND/ID`. Apps register their kinds."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from appliance.accounts.models import User
from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import uuid_or_invalid

ProjectOf = Callable[[User, UUID], UUID | None]
"""Returns the project of an object, None for one of the appliance.

Raises Http404 if the user may not view the object or it does not exist.
"""

_kinds: dict[str, ProjectOf] = {}


def register_place(kind: str, project_of: ProjectOf) -> None:
    _kinds[kind] = project_of


def project_at(viewer: User, place: str) -> UUID | None:
    """Return the project of the object at this place; None for the appliance or an empty place.

    Raises ApplianceError INVALID for a malformed place, and Http404 as `ProjectOf` does.
    """
    if not place:
        return None
    kind, _, object_id = place.partition("/")
    if kind not in _kinds:
        raise ApplianceError(
            Code.INVALID, f"object must be KIND/ID; the kinds are {', '.join(sorted(_kinds))}."
        )
    return _kinds[kind](viewer, uuid_or_invalid("The id in object", object_id))
