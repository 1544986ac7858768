"""REST views of allocations, and their rows for the feed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.action_views import detail_of
from appliance.accounts.authentication import request_user
from appliance.accounts.models import User
from appliance.accounts.places import Place, register_place
from appliance.activity.feed import hub
from appliance.activity.idempotency import idempotent
from appliance.allocations import actions, leases, services
from appliance.allocations.access import find_allocation, require_owner_or_manager
from appliance.allocations.eviction import release
from appliance.allocations.models import Allocation, AllocationState, Hold
from appliance.allocations.queries import (
    MAX_PREPARED_IDS,
    load_serializable,
    serializable_allocations,
)
from appliance.allocations.serializers import AllocationRequestSerializer, AllocationSerializer
from appliance.api.filters import Filter, apply_filters, filter_parameters, parse_choice
from appliance.api.pagination import CursorPagination
from appliance.api.serialization import serialize, to_json_types
from appliance.api.views import ApplianceView, check_version
from appliance.api.wait import WAIT_PARAMETER, register_waitable, wait_if_requested
from appliance.db.change_log import Audience
from appliance.db.prepared import Select

ALLOCATION_FILTERS: dict[str, tuple[str, Filter]] = {
    "state": ("state", parse_choice(*AllocationState.values))
}
STARTING = (AllocationState.QUEUED, AllocationState.PREPARING)
TRANSIENT = (*STARTING, AllocationState.RELEASING)
SELECT_STATE = Select(
    lambda allocation_id: Allocation.objects.filter(pk=allocation_id).values_list("state")
)


def serialize_current(allocation_id: UUID) -> dict[str, Any]:
    """Read an allocation from the database and serialize it."""
    return serialize(AllocationSerializer, load_serializable([allocation_id])[0])


def read_state(allocation_id: UUID) -> str | None:
    return next((state for (state,) in SELECT_STATE.rows(allocation_id=allocation_id)), None)


register_waitable("allocation", read_state)


def wait_while(
    request: Request, response: Response, allocation_id: UUID, states: Collection[str]
) -> Response:
    """Honour the `wait` parameter: delay the response while the allocation is in these states."""
    return wait_if_requested(request, response, "allocation", allocation_id, states)


class AllocationListView(ApplianceView):
    inline_write: ClassVar[bool] = True
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view", "POST": "allocations.create"}

    @extend_schema(
        parameters=filter_parameters(ALLOCATION_FILTERS), responses=AllocationSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        """List the allocations of all projects that the caller may view."""
        rows = serializable_allocations().visible_to(request_user(request))
        rows = apply_filters(request, rows, ALLOCATION_FILTERS)
        page = CursorPagination()
        return page.get_paginated_response(
            [serialize(AllocationSerializer, row) for row in page.paginate_queryset(rows, request)]
        )

    @extend_schema(
        parameters=[WAIT_PARAMETER],
        request=AllocationRequestSerializer,
        responses={202: AllocationSerializer},
    )
    def post(self, request: Request) -> Response:
        """Request an allocation. It is queued until it can be placed."""
        form = AllocationRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values = dict(form.validated_data)
        project, pool = values.pop("project"), values.pop("pool")

        def effect() -> tuple[int, dict[str, Any]]:
            allocation = services.create_allocation(
                owner=request_user(request),
                project_name=project,
                spec=services.AllocationSpec(pool_name=pool, **values),
            )
            return 202, to_json_types(serialize_current(allocation.pk))

        response = idempotent(request, effect)
        return wait_while(request, response, UUID(response.data["id"]), STARTING)


class AllocationView(ApplianceView):
    inline_write: ClassVar[bool] = True
    privileges: ClassVar[dict[str, str]] = {
        "GET": "allocations.view",
        "DELETE": actions.RELEASE.privilege,
    }

    @extend_schema(parameters=[WAIT_PARAMETER], responses=detail_of(AllocationSerializer))
    def get(self, request: Request, allocation_id: UUID) -> Response:
        """Return one allocation."""
        allocation = find_allocation(request, allocation_id, load_serializable)
        allowed = actions.ALLOCATIONS.actions_of(request_user(request), allocation)
        response = Response(
            serialize(AllocationSerializer, allocation) | {"actions": allowed},
            headers={"ETag": f'"{allocation.version}"'},
        )
        return wait_while(request, response, allocation_id, TRANSIENT)

    @extend_schema(parameters=[WAIT_PARAMETER], responses={202: AllocationSerializer})
    def delete(self, request: Request, allocation_id: UUID) -> Response:
        """Release an allocation.

        Its sessions end. Its partitions are free when their nodes have confirmed the release.
        """
        allocation = find_allocation(request, allocation_id, load_serializable)
        require_owner_or_manager(request, allocation)
        check_version(allocation, request)
        release(allocation_id=allocation.pk, actor=request_user(request).username)
        response = Response(serialize_current(allocation_id), status=202)
        return wait_while(request, response, allocation_id, TRANSIENT)


class AllocationForceReleaseView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": actions.FORCE_RELEASE.privilege}
    without_body: ClassVar[bool] = True

    @extend_schema(request=None, responses=AllocationSerializer)
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Release an allocation without confirmation by its nodes.

        Sessions may still run on the nodes, so use this only for nodes that do not return.
        """
        allocation = find_allocation(request, allocation_id, load_serializable)
        actor = request_user(request).username
        services.force_release(allocation_id=allocation.pk, actor=actor)
        return Response(serialize_current(allocation_id))


class AllocationHeartbeatView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": actions.HEARTBEAT.privilege}
    without_body: ClassVar[bool] = True
    dry_run_supported: ClassVar[bool] = False
    renewal_methods: ClassVar[frozenset[str]] = frozenset({"POST"})

    @extend_schema(request=None, responses=AllocationSerializer)
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Renew the lease of an allocation and return its current state.

        An active allocation with `hold` `session` is kept by open sessions only.
        """
        allocation = find_allocation(request, allocation_id, load_serializable)
        require_owner_or_manager(request, allocation)
        if allocation.hold != Hold.SESSION or allocation.state != AllocationState.ACTIVE:
            leases.renew_lease(allocation.pk)
        return Response(serialize(AllocationSerializer, allocation))


def allocation_rows(
    ids: Sequence[UUID],
) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    """Yield the rows of allocations for the feed."""
    many = len(ids) > MAX_PREPARED_IDS
    rows = serializable_allocations().filter(pk__in=ids) if many else load_serializable(ids)
    for row in rows:
        yield row.pk, "allocations.view", row.project_id, serialize(AllocationSerializer, row)


hub.register("allocation", allocation_rows)


def place_of_allocation(viewer: User, allocation_id: UUID) -> Place:
    rows = Allocation.objects.visible_to(viewer)
    return Place(get_object_or_404(rows, pk=allocation_id).project_id)


register_place("allocations", place_of_allocation)
