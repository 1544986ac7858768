"""REST views that suspend and resume an allocation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import idempotent
from appliance.allocations import actions, suspension_requests
from appliance.allocations.access import find_allocation
from appliance.allocations.allocation_views import CHANGING, serialize_current, wait_while
from appliance.allocations.queries import load_serializable
from appliance.allocations.serializers import AllocationSerializer
from appliance.api.errors import Code
from appliance.api.views import ApplianceView, ErrorCodes, check_version
from appliance.api.wait import WAIT_PARAMETER


def perform(request: Request, allocation_id: UUID, change: Callable[..., None]) -> Response:
    """Return the response to a request that changes the suspension, once for its key."""

    def effect() -> tuple[int, dict[str, Any]]:
        check_version(find_allocation(request, allocation_id, load_serializable), request)
        change(allocation_id=allocation_id, user=request_user(request))
        return 202, serialize_current(allocation_id)

    def authorize(_: object) -> object:
        return find_allocation(request, allocation_id, load_serializable)

    return idempotent(request, effect, authorize=authorize)


class SuspensionView(ApplianceView):
    inline_write: ClassVar[bool] = True
    without_body: ClassVar[bool] = True
    version_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})


class AllocationSuspendView(SuspensionView):
    privileges: ClassVar[dict[str, str]] = {"POST": actions.SUSPEND.privilege}
    error_codes: ClassVar[ErrorCodes] = {"POST": (Code.NOT_SUPPORTED,)}

    @extend_schema(parameters=[WAIT_PARAMETER], request=None, responses={202: AllocationSerializer})
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Suspend an active allocation: move the device memory of its sessions to host memory.

        Its programs go on later, at the same addresses: with their next call, or after `resume`.
        It keeps its GPUs, quota, tickets and lifetime; its memory stays reserved for it. Sessions
        get 30 s to end their work. If one cannot be suspended, all are resumed, and `suspension`
        has the reason.
        """
        response = perform(request, allocation_id, suspension_requests.suspend)
        return wait_while(request, response, allocation_id, CHANGING)


class AllocationResumeView(SuspensionView):
    privileges: ClassVar[dict[str, str]] = {"POST": actions.RESUME.privilege}

    @extend_schema(parameters=[WAIT_PARAMETER], request=None, responses={202: AllocationSerializer})
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Resume a suspended allocation before its programs have work.

        A suspension that is in progress is abandoned.
        """
        response = perform(request, allocation_id, suspension_requests.resume)
        return wait_while(request, response, allocation_id, CHANGING)
