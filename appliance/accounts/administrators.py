"""Rule that a person with all privileges on the whole appliance is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from django.contrib.auth.hashers import is_password_usable
from django.db.models import Q

from appliance.accounts.bindings import (
    parents_of_groups,
    privileges_of_roles,
    with_ancestors,
)
from appliance.accounts.models import BINDING_PLACES, GroupMember, RoleBinding, User
from appliance.accounts.privileges import ADMINISTER
from appliance.api.errors import ApplianceError, Code


def union(found: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*found)


class Administrators:
    """The people with all privileges, and whether one is left after a change.

    Accounts that cannot sign in with a password do not count. Reads the database when it is made,
    with five queries.
    """

    def __init__(self) -> None:
        bindings = list(
            RoleBinding.objects.filter(**dict.fromkeys(BINDING_PLACES)).values_list(
                "pk", "user_id", "group_id", "role"
            )
        )
        privileges = privileges_of_roles({role for *_, role in bindings})
        self._bound: dict[UUID | None, dict[UUID, frozenset[str]]] = {}
        for pk, user_id, group_id, role in bindings:
            self._bound.setdefault(user_id or group_id, {})[pk] = privileges[role]
        self._held = {holder: union(bound.values()) for holder, bound in self._bound.items()}
        self._parents = parents_of_groups()
        people = User.objects.filter(self._may_be_administrator(), is_active=True)
        self._direct: dict[UUID, set[UUID]] = {}
        members = GroupMember.objects.filter(user__in=people.values("pk"))
        for user_id, group_id in members.values_list("user_id", "group_id"):
            if user_id is not None:
                self._direct.setdefault(user_id, set()).add(group_id)
        passwords = people.values_list("pk", "password")
        found = {pk for pk, encoded in passwords if is_password_usable(encoded)}
        self._people = {pk for pk in found if self._is_administrator(pk)}

    def _may_be_administrator(self) -> Q:
        """Return the condition of people who hold the privilege that fewest bindings grant.

        Groups of all people have few privileges, so that their members are not read.
        """
        by_privilege = [{h for h in self._held if p in self._held[h]} for p in ADMINISTER]
        holders = min(by_privilege, key=len)
        parents = self._parents
        groups = holders | {g for g in parents if with_ancestors([g], parents) & holders}
        members = GroupMember.objects.filter(group__in=groups)
        return Q(pk__in=holders) | Q(pk__in=members.values("user_id"))

    def _groups(self, user_id: UUID, without: UUID | None) -> Iterator[UUID]:
        pending, seen = list(self._direct.get(user_id, ())), {without}
        while pending:
            group_id = pending.pop()
            if group_id not in seen:
                seen.add(group_id)
                pending += self._parents.get(group_id, ())
                yield group_id

    def _is_administrator(
        self, user_id: UUID, without_group: UUID | None = None, without_binding: UUID | None = None
    ) -> bool:
        holders = [user_id, *self._groups(user_id, without_group)]
        return union(self._held_without(h, without_binding) for h in holders) >= ADMINISTER

    def _held_without(self, holder: UUID, binding_id: UUID | None) -> frozenset[str]:
        bound = self._bound.get(holder, {})
        if binding_id not in bound:
            return self._held.get(holder, frozenset())
        return union(privileges for pk, privileges in bound.items() if pk != binding_id)

    def refusal(
        self,
        *,
        without_user: UUID | None = None,
        without_group: UUID | None = None,
        without_binding: UUID | None = None,
    ) -> ApplianceError | None:
        """Return the error of a change that leaves no administrator, or None."""
        remaining = (pk for pk in self._people if pk != without_user)
        if any(self._is_administrator(pk, without_group, without_binding) for pk in remaining):
            return None
        return ApplianceError(
            Code.CONFLICT,
            "This would remove the last administrator. Give another user the role administrator "
            "first.",
        )
