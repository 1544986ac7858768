"""Authorization of REST requests by the privileges that views declare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from rest_framework.exceptions import MethodNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from appliance.accounts.authentication import request_user
from appliance.accounts.permissions import can, can_at, can_somewhere, inventory_places
from appliance.accounts.second_factor_policy import require_second_factor
from appliance.api.errors import ApplianceError, Code

if TYPE_CHECKING:
    from rest_framework.views import APIView  # DRF imports this module while it defines APIView

    from appliance.accounts.models import User

SELF = "account.self"
"""Privilege of operations on the own account, which views permit to every user."""


class HasPrivilege(BasePermission):
    """Requires the privilege that the view declares for the method.

    Methods declared `public` need none. Raises MethodNotAllowed for undeclared methods, and
    ApplianceError (DENIED, PASSWORD_CHANGE_REQUIRED before the first password change, or
    SECOND_FACTOR_SETUP_REQUIRED without a required second factor).
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        privilege = getattr(view, "privileges", {}).get(request.method or "")
        if privilege == "public":
            return True
        user = request_user(request)
        if privilege is None:
            raise MethodNotAllowed(request.method or "")
        by_place: frozenset[str] = getattr(view, "inventory_methods", frozenset())
        refusal = privilege_refusal(user, privilege, in_inventory=request.method in by_place)
        if refusal is not None:
            raise refusal
        return True


def privilege_refusal(user: User, privilege: str, *, in_inventory: bool) -> ApplianceError | None:
    """Return the error for a user who may use the privilege on no object.

    With `in_inventory`, a role at a site, node, GPU or pool suffices. Everybody has SELF.
    """
    if privilege == SELF:
        return None
    try:
        require_own_password(user)
        require_second_factor(user)
    except ApplianceError as error:
        return error
    if can_somewhere(user, privilege):
        return None
    if in_inventory and inventory_places(user, privilege):
        return None
    return denied(privilege)


def require_own_password(user: User) -> None:
    """Raise ApplianceError with PASSWORD_CHANGE_REQUIRED before the first password change."""
    if user.must_change_password:
        raise ApplianceError(
            Code.PASSWORD_CHANGE_REQUIRED,
            "Change the one-time password first with `busbar login`.",
        )


def denied(privilege: str) -> ApplianceError:
    return ApplianceError(
        Code.DENIED,
        f"Missing privilege {privilege}; ask an administrator for a role that includes it.",
    )


def require_at(user: User, privilege: str, places: Iterable[UUID | None]) -> None:
    """Raise ApplianceError with DENIED without the privilege at these places of the inventory."""
    if not can_at(user, privilege, places):
        raise denied(privilege)


def require_privilege(user: User, privilege: str) -> None:
    """Raise ApplianceError with DENIED if no appliance-wide role grants the privilege."""
    if not can(user, privilege, None):
        raise denied(privilege)
