"""Rule that a person with all privileges on the whole appliance is left."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.contrib.auth.hashers import is_password_usable

from appliance.accounts.bindings import (
    parents_of_groups,
    privileges_of_roles,
)
from appliance.accounts.models import BINDING_PLACES, GroupMember, RoleBinding, User
from appliance.accounts.privileges import ADMINISTER
from appliance.api.errors import ApplianceError, Code


class Administrators:
    """The people with all privileges, and whether one is left without a user or a group.

    Accounts that cannot sign in with a password do not count. Reads the database when it is made,
    with five queries.
    """

    def __init__(self) -> None:
        bindings = list(
            RoleBinding.objects.filter(**dict.fromkeys(BINDING_PLACES)).values_list(
                "user_id", "group_id", "role"
            )
        )
        privileges = privileges_of_roles({role for _, _, role in bindings})
        self._held: dict[UUID | None, frozenset[str]] = {}
        for user_id, group_id, role in bindings:
            holder = user_id or group_id
            self._held[holder] = self._held.get(holder, frozenset()) | privileges[role]
        self._parents = parents_of_groups()
        self._direct: dict[UUID, set[UUID]] = {}
        members = GroupMember.objects.filter(user_id__isnull=False)
        for user_id, group_id in members.values_list("user_id", "group_id"):
            if user_id is not None:
                self._direct.setdefault(user_id, set()).add(group_id)
        passwords = User.objects.filter(is_active=True).values_list("pk", "password")
        people = {pk for pk, encoded in passwords if is_password_usable(encoded)}
        self._people = {pk for pk in people if self._is_administrator(pk, None)}

    def _groups(self, user_id: UUID, without: UUID | None) -> Iterator[UUID]:
        pending, seen = list(self._direct.get(user_id, ())), {without}
        while pending:
            group_id = pending.pop()
            if group_id not in seen:
                seen.add(group_id)
                pending += self._parents.get(group_id, ())
                yield group_id

    def _is_administrator(self, user_id: UUID, without_group: UUID | None) -> bool:
        holders = [user_id, *self._groups(user_id, without_group)]
        return frozenset[str]().union(*(self._held.get(h, ()) for h in holders)) >= ADMINISTER

    def refusal(
        self, *, without_user: UUID | None = None, without_group: UUID | None = None
    ) -> ApplianceError | None:
        """Return the error of a change that leaves no administrator, or None."""
        remaining = (pk for pk in self._people if pk != without_user)
        if any(self._is_administrator(pk, without_group) for pk in remaining):
            return None
        return ApplianceError(
            Code.CONFLICT,
            "This would remove the last administrator. Give another user the role administrator "
            "first.",
        )
