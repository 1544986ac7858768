"""Access checks of views that work on one allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from django.http import Http404
from rest_framework.request import Request

from appliance.accounts.actions import raise_refusal
from appliance.accounts.authentication import request_user
from appliance.accounts.permissions import projects_with
from appliance.allocations.actions import owner_refusal
from appliance.allocations.models import Allocation


def find_allocation(
    request: Request, allocation_id: UUID, load: Callable[[Sequence[UUID]], list[Allocation]]
) -> Allocation:
    """Return an allocation that the caller may view; raise Http404 otherwise."""
    projects = projects_with(request_user(request), "allocations.view")
    for found in load([allocation_id]):
        if projects is None or found.project_id in projects:
            return found
    raise Http404


def require_owner_or_manager(request: Request, allocation: Allocation) -> None:
    raise_refusal(owner_refusal(request_user(request), allocation))
