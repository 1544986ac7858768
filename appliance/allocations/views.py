"""Allocations, their tickets and heartbeats, and sessions."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from django.db.models import Prefetch
from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.permissions import can, projects_with
from appliance.accounts.services import DEFAULT_PROJECT
from appliance.activity.feed import NO_PROJECT, Audience, hub
from appliance.activity.idempotency import idempotent
from appliance.allocations import book, holding, services, tickets
from appliance.allocations.models import (
    Allocation,
    AllocationState,
    Partition,
    Session,
    SessionState,
)
from appliance.allocations.placement import ComputeMode
from appliance.encoding import moment
from appliance.errors import ApplianceError, Code
from appliance.fields import NameField
from appliance.inventory.endpoints import Way, in_order
from appliance.inventory.models import Endpoint, Gpu
from appliance.pools.models import DEFAULT_POOL, Pool
from appliance.prepared import Select
from appliance.rest import (
    WAIT,
    ApplianceView,
    CursorPage,
    Filter,
    an_id,
    caller,
    check_version,
    filter_parameters,
    filtered,
    one_of,
    plain,
    shown,
    wait_for,
)
from appliance.telemetry import series
from appliance.telemetry.views import MetricHistoryView


class PartitionSerializer(serializers.ModelSerializer[Partition]):
    gpu_id = serializers.UUIDField(read_only=True)
    gpu_index = serializers.IntegerField(source="gpu.index", read_only=True)
    node = serializers.CharField(source="gpu.node.name", read_only=True)

    class Meta:
        model = Partition
        fields = (
            "id",
            "gpu_id",
            "gpu_index",
            "node",
            "position",
            "memory_bytes",
            "compute_percent",
        )

    def to_representation(self, p: Partition) -> dict[str, Any]:
        """What the fields say, without asking each of them. Of rows `with_names`."""
        return {
            "id": str(p.pk), "gpu_id": str(p.gpu_id), "gpu_index": p.gpu_index, "node": p.node_name, "position": p.position,  # type: ignore[attr-defined]
            "memory_bytes": p.memory_bytes, "compute_percent": p.compute_percent,
        }  # fmt: skip


class OccupiedPartitionSerializer(PartitionSerializer):
    allocation_id = serializers.UUIDField(read_only=True)
    state = serializers.CharField(
        source="allocation.state", read_only=True, help_text="Of its allocation."
    )

    class Meta(PartitionSerializer.Meta):
        fields = (*PartitionSerializer.Meta.fields, "allocation_id", "state")  # type: ignore[assignment]

    def to_representation(self, p: Partition) -> dict[str, Any]:
        return {
            **super().to_representation(p),
            "allocation_id": str(p.allocation_id),
            "state": p.allocation_state,
        }  # type: ignore[attr-defined]


def moment_or_none(value: datetime | None) -> str | None:
    return None if value is None else moment(value)


class AllocationSerializer(serializers.ModelSerializer[Allocation]):
    owner = serializers.CharField(source="owner.username", read_only=True)
    project = NameField(source="project.name", read_only=True)
    pool = serializers.CharField(
        source="pool.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="null: it was deleted since.",
    )
    placed_pool = serializers.CharField(
        source="placed_pool.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Where its GPUs are: its pool, or a fallback of it.",
    )
    reservation_id = serializers.UUIDField(read_only=True, allow_null=True)
    selector = serializers.DictField(
        child=serializers.CharField(), read_only=True, help_text="Labels that its GPUs have."
    )
    partitions = PartitionSerializer(many=True, read_only=True)

    class Meta:
        model = Allocation
        fields = (
            "id", "name", "state", "owner", "project", "pool", "placed_pool", "gpu_count", "percent", "memory_bytes", "compute_mode", "same_node", "model",
            "selector",
            "min_driver_version", "min_cuda_version", "priority", "preemptible", "lifetime_seconds", "reservation_id", "partitions", "waiting_rule",
            "waiting_reason",
            "evict_at", "end_reason", "labels", "version", "created_at", "active_at", "ended_at",
        )  # fmt: skip

    def to_representation(self, a: Allocation) -> dict[str, Any]:
        """What the fields say, without asking each of them: it is shown with every change. Of rows `with_names`."""
        return {
            "id": str(a.pk), "name": a.name, "state": a.state,
            "owner": a.owner_name, "project": a.project_name, "pool": a.pool_name, "placed_pool": a.placed_pool_name,  # type: ignore[attr-defined]
            "gpu_count": a.gpu_count, "percent": a.percent, "memory_bytes": a.memory_bytes, "compute_mode": a.compute_mode, "same_node": a.same_node,
            "model": a.model, "selector": a.selector, "min_driver_version": a.min_driver_version,
            "min_cuda_version": a.min_cuda_version, "priority": a.priority, "preemptible": a.preemptible,
            "lifetime_seconds": a.lifetime_seconds, "reservation_id": str(a.reservation_id) if a.reservation_id else None,
            "partitions": [shown(PartitionSerializer, p) for p in a.partitions.all()], "waiting_rule": a.waiting_rule, "waiting_reason": a.waiting_reason,
            "evict_at": moment_or_none(a.evict_at), "end_reason": a.end_reason, "labels": a.labels, "version": a.version,
            "created_at": moment(a.created_at), "active_at": moment_or_none(a.active_at), "ended_at": moment_or_none(a.ended_at),
        }  # fmt: skip


class AllocationRequestSerializer(serializers.Serializer[dict[str, Any]]):
    name = serializers.CharField(max_length=100, required=False, default="", allow_blank=True)
    project = NameField(max_length=100, required=False, default=DEFAULT_PROJECT)
    pool = NameField(max_length=100, required=False, default=DEFAULT_POOL)
    gpu_count = serializers.IntegerField(min_value=1, max_value=16, required=False, default=1)
    percent = serializers.IntegerField(
        min_value=1,
        max_value=100,
        required=False,
        default=0,
        help_text="Of compute and, without memory_bytes, of memory of each GPU. Without both: 100.",
    )
    memory_bytes = serializers.IntegerField(
        min_value=1,
        max_value=1 << 50,
        required=False,
        default=0,
        help_text="Of each GPU. Without percent, compute is in proportion.",
    )
    compute_mode = serializers.ChoiceField(
        [m.value for m in ComputeMode],
        required=False,
        default="shared",
        help_text="exclusive: whole GPUs.",
    )
    same_node = serializers.BooleanField(
        required=False, default=False, help_text="All GPUs on one node."
    )
    model = serializers.CharField(
        max_length=100,
        required=False,
        default="",
        allow_blank=True,
        help_text="Part of the GPU model's name, in any case.",
    )
    selector = serializers.DictField(
        child=serializers.CharField(max_length=200),
        required=False,
        default=dict,
        help_text="Labels that GPU or node must have.",
    )
    min_cuda_version = serializers.RegexField(
        r"^(\d{1,3}(\.\d{1,3})?)?$",
        required=False,
        default="",
        allow_blank=True,
        help_text="Such as 12.4.",
    )
    min_driver_version = serializers.RegexField(
        r"^(\d{1,5}(\.\d{1,5}){0,3})?$", required=False, default="", allow_blank=True
    )
    priority = serializers.IntegerField(
        min_value=0,
        max_value=200,
        required=False,
        default=50,
        help_text="From 100 on, an operator's to give.",
    )
    preemptible = serializers.BooleanField(
        required=False,
        default=True,
        help_text="May be asked to leave for who has the better claim; only so it may borrow.",
    )
    lifetime_seconds = serializers.IntegerField(
        min_value=1, max_value=366 * 86400, required=False, default=None, allow_null=True
    )
    reservation_id = serializers.UUIDField(required=False, default=None, allow_null=True)


class SessionSerializer(serializers.ModelSerializer[Session]):
    allocation_id = serializers.UUIDField(read_only=True)
    node = serializers.CharField(source="node.name", read_only=True)
    refused_calls = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Functions of the driver API that it called and that are not there.",
    )

    class Meta:
        model = Session
        fields = (
            "id", "allocation_id", "node", "state", "pid", "client_pid", "client_address", "program", "isolation", "memory_bytes",
            "launches", "bytes_in", "bytes_out", "end_reason", "refused_calls", "opened_at", "closed_at",
        )  # fmt: skip

    def to_representation(self, session: Session) -> dict[str, Any]:
        """Counters are fresher in memory than in the row."""
        row: dict[str, Any] = super().to_representation(session)
        if session.state != SessionState.CLOSED:
            row.update(
                {
                    name: int(value)
                    for name, value in series.newest(session.pk).items()
                    if name in row
                }
            )
        return row


class TicketRequestSerializer(serializers.Serializer[dict[str, str]]):
    client_public_key = serializers.RegexField(
        r"^[A-Za-z0-9+/]{43}=$", help_text="Ed25519, 32 bytes, base64."
    )


class TicketSerializer(serializers.Serializer[dict[str, Any]]):
    node_id = serializers.UUIDField()
    node = serializers.CharField()
    software = serializers.BooleanField()
    endpoints = serializers.ListField(child=serializers.DictField())
    ticket = serializers.CharField()


class TicketsSerializer(serializers.Serializer[dict[str, Any]]):
    ca_pem = serializers.CharField()
    expires_seconds = serializers.IntegerField()
    tickets = TicketSerializer(many=True)


def with_rows() -> Any:
    """All that is shown of them."""
    return Allocation.objects.with_names().prefetch_related(
        Prefetch("partitions", Partition.objects.with_names().order_by("position"))
    )


BY_ID = Select(lambda ids: Allocation.objects.with_names().filter(pk__in=ids))
PARTITIONS_OF = Select(
    lambda ids: Partition.objects.with_names().filter(allocation_id__in=ids).order_by("position")
)


def read(ids: Sequence[UUID]) -> list[Allocation]:
    """As `with_rows`, without putting the queries together again."""
    found, partitions = BY_ID.objects(ids=ids), dict[UUID, list[Partition]]()
    for p in PARTITIONS_OF.objects(ids=ids):
        partitions.setdefault(p.allocation_id, []).append(p)
    for allocation in found:
        allocation.__dict__["_prefetched_objects_cache"] = {
            "partitions": partitions.get(allocation.pk, [])
        }
    return found


def now_of(allocation_id: UUID) -> dict[str, Any]:
    return shown(AllocationSerializer, read([allocation_id])[0])


def visible(
    request: Request, allocation_id: UUID, of: Callable[[Sequence[UUID]], list[Allocation]] = read
) -> Allocation:
    projects = projects_with(caller(request), "allocations.view")
    for found in of([allocation_id]):
        if projects is None or found.project_id in projects:
            return found
    raise Http404


def own_or_managed(request: Request, allocation: Allocation) -> None:
    if allocation.owner_id != caller(request).pk and not can(
        caller(request), "allocations.manage", allocation.project_id
    ):
        raise ApplianceError(
            Code.DENIED, "The allocation is somebody else's; its owner or an operator may do this."
        )


STATE_OF = Select(
    lambda allocation_id: Allocation.objects.filter(pk=allocation_id).values_list("state")
)
TRANSIENT = (AllocationState.WAITING, AllocationState.PREPARING, AllocationState.RELEASING)


def is_past(allocation_id: UUID, states: Collection[str]) -> bool:
    return all(state not in states for (state,) in STATE_OF.rows(allocation_id=allocation_id))


def wait_while(
    request: Request, answer: Response, allocation_id: UUID, states: Collection[str]
) -> Response:
    over = partial(is_past, allocation_id, [str(state) for state in states])
    return wait_for(
        request, answer, "allocation", allocation_id, over, partial(now_of, allocation_id)
    )


ALLOCATION_FILTERS: dict[str, tuple[str, Filter]] = {
    "state": ("state", one_of(*AllocationState.values))
}
PARTITION_FILTERS: dict[str, tuple[str, Filter]] = {"gpu_id": ("gpu_id", an_id)}
SESSION_FILTERS: dict[str, tuple[str, Filter]] = {
    "state": ("state", one_of(*SessionState.values)),
    "allocation_id": ("allocation_id", an_id),
}


class AllocationListView(ApplianceView):
    quick: ClassVar[bool] = True
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view", "POST": "allocations.create"}

    @extend_schema(
        parameters=filter_parameters(ALLOCATION_FILTERS), responses=AllocationSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        rows = filtered(request, with_rows().visible_to(caller(request)), ALLOCATION_FILTERS)
        page = CursorPage()
        return page.get_paginated_response(
            [shown(AllocationSerializer, row) for row in page.paginate_queryset(rows, request)]
        )

    @extend_schema(
        parameters=[WAIT],
        request=AllocationRequestSerializer,
        responses={202: AllocationSerializer},
    )
    def post(self, request: Request) -> Response:
        form = AllocationRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = dict(form.validated_data)
        project, pool = wanted.pop("project"), wanted.pop("pool")

        def effect() -> tuple[int, dict[str, Any]]:
            allocation = services.allocation_create(
                owner=caller(request),
                project_name=project,
                wanted=services.Wanted(pool_name=pool, **wanted),
            )
            return 202, plain(now_of(allocation.pk))

        answer = idempotent(request, effect)
        return wait_while(
            request,
            answer,
            UUID(answer.data["id"]),
            (AllocationState.WAITING, AllocationState.PREPARING),
        )


class AllocationView(ApplianceView):
    quick: ClassVar[bool] = True
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view", "DELETE": "allocations.use"}

    @extend_schema(parameters=[WAIT], responses=AllocationSerializer)
    def get(self, request: Request, allocation_id: UUID) -> Response:
        allocation = visible(request, allocation_id)
        answer = Response(
            shown(AllocationSerializer, allocation), headers={"ETag": f'"{allocation.version}"'}
        )
        return wait_while(request, answer, allocation_id, TRANSIENT)

    @extend_schema(parameters=[WAIT], responses={202: AllocationSerializer})
    def delete(self, request: Request, allocation_id: UUID) -> Response:
        """Releases it: sessions end, partitions are free once their nodes have said so."""
        allocation = visible(request, allocation_id)
        own_or_managed(request, allocation)
        check_version(allocation, request)
        services.evict(
            allocation_id=allocation.pk,
            reason=f"released by {caller(request).username}",
            actor=caller(request).username,
        )
        return wait_while(
            request, Response(now_of(allocation_id), status=202), allocation_id, TRANSIENT
        )


class AllocationForceReleaseView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "allocations.force"}

    @extend_schema(request=None, responses=AllocationSerializer)
    def post(self, request: Request, allocation_id: UUID) -> Response:
        allocation = visible(request, allocation_id)
        services.force_release(allocation_id=allocation.pk, actor=caller(request).username)
        return Response(now_of(allocation_id))


class AllocationHeartbeatView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "allocations.use"}
    dry_runs: ClassVar[bool] = False  # what it changes is no row

    @extend_schema(request=None, responses=AllocationSerializer)
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Holds the allocation for another while; the answer says how it stands."""
        allocation = visible(request, allocation_id)
        own_or_managed(request, allocation)
        holding.held(allocation.pk)
        return Response(shown(AllocationSerializer, allocation))


class AllocationTicketView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "allocations.use"}
    looks: ClassVar[frozenset[str]] = frozenset({"POST"})

    @extend_schema(request=TicketRequestSerializer, responses=TicketsSerializer)
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """A ticket for each node of the allocation, good for five minutes and for this key only."""
        form = TicketRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        allocation = visible(request, allocation_id, lambda ids: services.BY_ID.objects(ids=ids))
        if allocation.owner_id != caller(request).pk:
            raise ApplianceError(
                Code.DENIED, "Only the owner of an allocation may open sessions under it."
            )
        if allocation.state != AllocationState.ACTIVE:
            raise ApplianceError(
                Code.NOT_ACTIVE,
                f"The allocation is {allocation.state}; tickets are given while it is active.",
            )
        try:
            public_key = base64.b64decode(form.validated_data["client_public_key"], validate=True)
        except binascii.Error:
            public_key = b""
        if len(public_key) != 32:
            raise ApplianceError(Code.INVALID, "client_public_key must be 32 bytes in base64.")
        return Response(
            tickets_for(allocation, public_key, client_address=request.META.get("REMOTE_ADDR", ""))
        )


TICKETED = Select(
    lambda allocation_id: (
        Partition.objects.filter(allocation_id=allocation_id)
        .order_by("position")
        .values_list(
            "gpu__node_id",
            "gpu__node__name",
            "gpu__node__software",
            "gpu__uuid",
            "memory_bytes",
            "compute_percent",
        )
    )
)
ENDPOINTS = Select(
    lambda node_ids: (
        Endpoint.objects.filter(node_id__in=node_ids)
        .order_by("position")
        .values_list("node_id", "address", "port", "network")
    )
)


NETWORK_OF = Select(lambda ids: Pool.objects.filter(pk__in=ids).values_list("network"))


def tickets_for(allocation: Allocation, public_key: bytes, client_address: str) -> dict[str, Any]:
    key, now = tickets.signing_key(), int(time.time())
    nodes: dict[tuple[UUID, str, bool], list[tickets.TicketPartition]] = {}
    for node_id, name, software, *partition in TICKETED.rows(allocation_id=allocation.pk):
        nodes.setdefault((node_id, name, software), []).append(tickets.TicketPartition(*partition))
    ways: dict[UUID, list[Way]] = {}
    for node_id, *way in ENDPOINTS.rows(node_ids=[node_id for node_id, _, _ in nodes]):
        ways.setdefault(node_id, []).append(Way(*way))
    network = (
        next((network for (network,) in NETWORK_OF.rows(ids=[allocation.placed_pool_id])), "")
        if allocation.placed_pool_id
        else ""
    )
    out = []
    for (node_id, name, software), partitions in nodes.items():
        ticket = tickets.issue(
            key=key, allocation_id=allocation.pk, node_id=node_id, fence=(allocation.fence_epoch, allocation.fence_counter), client_public_key=public_key,
            partitions=partitions, now_seconds=now,
        )  # fmt: skip
        found = [
            way._asdict()
            for way in in_order(
                ways.get(node_id, []), network=network, client_address=client_address
            )
        ]
        out.append(
            {
                "node_id": node_id,
                "node": name,
                "software": software,
                "endpoints": found,
                "ticket": base64.b64encode(ticket).decode(),
            }
        )
    ca_pem = (settings.DATA_DIR / "ca.pem").read_text()
    return {"ca_pem": ca_pem, "expires_seconds": tickets.LIFE_SECONDS, "tickets": out}


class PartitionListView(ApplianceView):
    """What is occupied on each GPU. Whoever sees the inventory sees how full it is; whose it is, the allocation says."""

    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}

    @extend_schema(
        parameters=filter_parameters(PARTITION_FILTERS),
        responses=OccupiedPartitionSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = filtered(
            request,
            Partition.objects.filter(gpu__in=Gpu.objects.visible_to(caller(request))).with_names(),
            PARTITION_FILTERS,
        )
        page = CursorPage()
        return page.get_paginated_response(
            [
                shown(OccupiedPartitionSerializer, row)
                for row in page.paginate_queryset(rows, request)
            ]
        )


class PartitionMetricHistoryView(MetricHistoryView):
    """What of it is used is its holder's affair: only the project's people see it."""

    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    def find(self, request: Request, object_id: UUID) -> UUID:
        mine = Allocation.objects.visible_to(caller(request))
        return get_object_or_404(Partition.objects.filter(allocation__in=mine), pk=object_id).pk


class SessionMetricHistoryView(MetricHistoryView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    def find(self, request: Request, object_id: UUID) -> UUID:
        return get_object_or_404(Session.objects.visible_to(caller(request)), pk=object_id).pk


class SessionListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    @extend_schema(
        parameters=filter_parameters(SESSION_FILTERS), responses=SessionSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        rows = filtered(
            request,
            Session.objects.visible_to(caller(request)).select_related("node"),
            SESSION_FILTERS,
        )
        page = CursorPage()
        return page.get_paginated_response(
            [shown(SessionSerializer, row) for row in page.paginate_queryset(rows, request)]
        )


class SessionView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    @extend_schema(responses=SessionSerializer)
    def get(self, request: Request, session_id: UUID) -> Response:
        return Response(
            SessionSerializer(
                get_object_or_404(Session.objects.visible_to(caller(request)), pk=session_id)
            ).data
        )


Rows = Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]


def allocation_rows(ids: Sequence[UUID]) -> Rows:
    for allocation in read(ids) if len(ids) <= book.FEW else with_rows().filter(pk__in=ids):
        yield (
            allocation.pk,
            "allocations.view",
            allocation.project_id,
            shown(AllocationSerializer, allocation),
        )


def partition_rows(ids: Sequence[UUID]) -> Rows:
    for partition in Partition.objects.select_related("gpu__pool").with_names().filter(pk__in=ids):
        pool = partition.gpu.pool
        yield (
            partition.pk,
            "inventory.view",
            pool.audience if pool else NO_PROJECT,
            shown(OccupiedPartitionSerializer, partition),
        )


def session_rows(ids: Sequence[UUID]) -> Rows:
    for session in Session.objects.select_related("node", "allocation").filter(pk__in=ids):
        yield (
            session.pk,
            "allocations.view",
            session.allocation.project_id,
            shown(SessionSerializer, session),
        )


hub.register("allocation", allocation_rows)
hub.register("partition", partition_rows)
hub.register("session", session_rows)
