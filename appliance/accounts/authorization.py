"""Authorization of REST requests by the privileges that views declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.exceptions import MethodNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from appliance.accounts.authentication import request_user
from appliance.accounts.permissions import can, can_somewhere
from appliance.api.errors import ApplianceError, Code

if TYPE_CHECKING:
    from rest_framework.views import APIView  # DRF imports this module while it defines APIView

    from appliance.accounts.models import User


class HasPrivilege(BasePermission):
    """Requires the privilege that the view declares for the method.

    Methods declared `public` need none. Raises MethodNotAllowed for undeclared methods, and
    ApplianceError (DENIED, or PASSWORD_CHANGE_REQUIRED before the first password change).
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        privilege = getattr(view, "privileges", {}).get(request.method or "")
        if privilege == "public":
            return True
        user = request_user(request)
        if privilege is None:
            raise MethodNotAllowed(request.method or "")
        if privilege == "account.self":
            return True
        require_own_password(user)
        if not can_somewhere(user, privilege):
            raise denied(privilege)
        return True


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


def require_privilege(user: User, privilege: str) -> None:
    """Raise ApplianceError with DENIED if no appliance-wide role grants the privilege."""
    if not can(user, privilege, None):
        raise denied(privilege)
