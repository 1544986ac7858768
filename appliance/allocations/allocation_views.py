"""REST views of allocations, and their rows for the feed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Exists, OuterRef
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.action_views import detail_of
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import idempotent
from appliance.accounts.resources import Resource
from appliance.activity.feed import hub
from appliance.allocations import actions, leases, services
from appliance.allocations.access import find_allocation, require_owner_or_manager
from appliance.allocations.eviction import release
from appliance.allocations.models import (
    RUNNING,
    Allocation,
    AllocationState,
    Hold,
    Partition,
    SuspensionState,
)
from appliance.allocations.queries import (
    MAX_PREPARED_IDS,
    load_serializable,
    serializable_allocations,
)
from appliance.allocations.request_projects import project_of_allocation
from appliance.allocations.resize_requests import resize
from appliance.allocations.serializers import (
    AllocationRequestSerializer,
    AllocationSerializer,
    ResizeRequestSerializer,
)
from appliance.api.errors import Code
from appliance.api.filters import (
    parse_choice,
    parse_id,
    parse_labels,
    parse_text,
    parse_time,
)
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, ErrorCodes, check_version
from appliance.api.wait import WAIT_PARAMETER, register_waitable, wait_if_requested
from appliance.db.change_log import Audience
from appliance.db.prepared import Select

ALLOCATIONS = Resource(
    AllocationSerializer,
    {
        "state": ("state", parse_choice(*AllocationState.values)),
        "name": ("name", parse_text),
        "owner": ("owner__username", parse_text),
        "project": ("project__name", parse_text),
        "pool": ("pool__name", parse_text),
        "placed_pool": ("placed_pool__name", parse_text),
        "reservation_id": ("reservation_id", parse_id),
        "ended_since": ("ended_at__gte", parse_time),
        "ended_until": ("ended_at__lt", parse_time),
        "labels": ("labels", parse_labels),
    },
    CREATED
    | {
        "name": Order("name"),
        "state": Order("state"),
        "priority": Order("priority", kind=int),
    },
    rows=lambda user: serializable_allocations().visible_to(user),
)
STARTING = (AllocationState.QUEUED, AllocationState.PREPARING)
RESIZING = "resizing"
"""State for waits: active, and waiting for a size or giving memory back."""
CHANGING = (SuspensionState.SUSPENDING, SuspensionState.RESUMING)
TRANSIENT = (*STARTING, RESIZING, *CHANGING, AllocationState.RELEASING)
SELECT_STATE = Select(
    lambda allocation_id: Allocation.objects.filter(pk=allocation_id).values_list(
        "state",
        "suspension",
        "resize_requested_at",
        Exists(Partition.objects.filter(allocation=OuterRef("pk"), resizing=True)),
    )
)


def serialize_current(allocation_id: UUID) -> dict[str, Any]:
    """Read an allocation from the database and serialize it."""
    return serialize(AllocationSerializer, load_serializable([allocation_id])[0])


def read_state(allocation_id: UUID) -> str | None:
    row = SELECT_STATE.rows(allocation_id=allocation_id)
    for state, suspension, requested_at, resizing in row:
        if state in RUNNING and suspension in CHANGING:
            return str(suspension)
        active = state == AllocationState.ACTIVE
        return RESIZING if active and (requested_at is not None or resizing) else str(state)
    return None


register_waitable("allocation", read_state)


def wait_while(
    request: Request, response: Response, allocation_id: UUID, states: Collection[str]
) -> Response:
    """Honour the `wait` parameter: delay the response while the allocation is in these states."""
    return wait_if_requested(request, response, "allocation", allocation_id, states)


class AllocationListView(ApplianceView):
    inline_write: ClassVar[bool] = True
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view", "POST": "allocations.create"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "allocations"}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.UNSATISFIABLE,),
    }

    get = ALLOCATIONS.lists("List the allocations of all projects that the caller may view.")

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
        project, pool = values.pop("project", None), values.pop("pool")

        def effect() -> tuple[int, dict[str, Any]]:
            allocation = services.create_allocation(
                owner=request_user(request),
                project_name=project,
                pool_name=pool,
                **values,
            )
            return 202, serialize_current(allocation.pk)

        def authorize(stored: dict[str, Any]) -> None:
            pk, name = UUID(stored["id"]), stored["project"]
            project_of_allocation(request_user(request), pk, name)

        response = idempotent(request, effect, authorize=authorize)
        return wait_while(request, response, UUID(response.data["id"]), STARTING)


class AllocationView(ApplianceView):
    inline_write: ClassVar[bool] = True
    privileges: ClassVar[dict[str, str]] = {
        "GET": "allocations.view",
        "PATCH": actions.RESIZE.privilege,
        "DELETE": actions.RELEASE.privilege,
    }
    version_methods: ClassVar[frozenset[str]] = frozenset({"PATCH", "DELETE"})
    error_codes: ClassVar[ErrorCodes] = {"PATCH": (Code.UNSATISFIABLE, Code.NOT_SUPPORTED)}

    @extend_schema(parameters=[WAIT_PARAMETER], responses=detail_of(AllocationSerializer))
    def get(self, request: Request, allocation_id: UUID) -> Response:
        """Return one allocation."""
        allocation = find_allocation(request, allocation_id, load_serializable)
        allowed = actions.ALLOCATIONS.actions_of(request_user(request), allocation)
        response = Response(serialize(AllocationSerializer, allocation) | {"actions": allowed})
        return wait_while(request, response, allocation_id, TRANSIENT)

    @extend_schema(
        parameters=[WAIT_PARAMETER],
        request=ResizeRequestSerializer,
        responses={202: AllocationSerializer},
    )
    def patch(self, request: Request, allocation_id: UUID) -> Response:
        """Resize an active allocation. Its sessions and tickets are not affected.

        Omitted values stay. The allocation grows at once if the capacity is free; otherwise it
        keeps its size and compute mode and waits in the queue. Growth within a quota may evict
        others after a notice, as a request may; they go on if the resize is withdrawn by the
        present size and mode, also while the allocation is suspended. It shrinks at once; memory
        that it still uses beyond its size stays occupied until its programs free it. `resize` has
        the state. Nodes that cannot resize allocations (`resizes_allocations`) refuse it, except to
        withdraw a resize that waits.
        """
        form = ResizeRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        allocation = find_allocation(request, allocation_id, load_serializable)
        check_version(allocation, request)
        resize(
            allocation_id=allocation_id,
            percent=form.validated_data.get("percent"),
            memory_bytes=form.validated_data.get("memory_bytes"),
            compute_mode=form.validated_data.get("compute_mode"),
            user=request_user(request),
        )
        response = Response(serialize_current(allocation_id), status=202)
        return wait_while(request, response, allocation_id, [RESIZING])

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
        is_kept = allocation.hold != Hold.SESSION or allocation.state not in RUNNING
        if is_kept and allocation.state != AllocationState.RELEASED:  # its lease is forgotten
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
