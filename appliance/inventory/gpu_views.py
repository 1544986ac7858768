"""REST views of GPUs, and their rows for the feed."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.authorization import require_at, require_privilege
from appliance.accounts.models import User
from appliance.accounts.permissions import can, inventory_places, projects_with
from appliance.accounts.resources import Resource, Values
from appliance.activity.feed import NO_PROJECT, hub
from appliance.api.filters import (
    Filter,
    apply_filters,
    parse_boolean,
    parse_filters,
    parse_id,
    parse_labels,
    parse_text,
    parse_whole_number,
)
from appliance.api.listing import CREATED
from appliance.api.pagination import CursorPagination, Order
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView
from appliance.db.change_log import Audience
from appliance.db.prepared import Select
from appliance.inventory import actions, gpu_admission, services
from appliance.inventory.models import VIEW, Gpu, GpuQuerySet, NodeState
from appliance.inventory.serializers import (
    GpuAdmissionSerializer,
    GpuChangeSerializer,
    GpuSerializer,
)
from appliance.pools.models import Pool, is_open_to
from appliance.telemetry.views import MetricHistoryView

SELECT_POOL_ID = Select(lambda name: Pool.objects.filter(name=name).values_list("pk"))
SELECT_RESTRICTED_POOLS = Select(lambda: Pool.objects.restricted().values_list("pk", "project_ids"))
MAX_IDS_A_QUERY = 500


def parse_pool_name(name: str) -> UUID:
    """Name of the pool."""
    return next((pk for (pk,) in SELECT_POOL_ID.rows(name=parse_text(name))), NO_PROJECT)


def parse_uuid(text: str) -> UUID:
    """UUID of the GPU, also in the form of nvidia-smi with `GPU-` in front."""
    return parse_id(text.removeprefix("GPU-"))


parse_uuid.schema = {  # type: ignore[attr-defined]
    "type": "string",
    "pattern": "^(GPU-)?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
}
GPU_FILTERS: dict[str, tuple[str, Filter]] = {
    "node_id": ("node_id", parse_id),
    "node": ("node__name", parse_text),
    "site": ("node__site__name", parse_text),
    "pool": ("pool_id", parse_pool_name),
    "uuid": ("uuid", parse_uuid),
    "index": ("index", parse_whole_number),
    "model": ("model", parse_text),
    "mig": ("mig", parse_boolean),
    "present": ("present", parse_boolean),
    "held": ("held", parse_boolean),
    "labels": ("labels", parse_labels),
}
GPUS = Resource(
    GpuSerializer,
    GPU_FILTERS,
    CREATED
    | {
        "node": Order("node__name", "node_name"),
        "model": Order("model"),
        "memory_bytes": Order("memory_bytes", kind=int),
    },
    rows=lambda user: Gpu.objects.visible_to(user).with_names(user),
    kind=actions.GPUS,
)
GpuRow: Any = namedtuple("GpuRow", GpuSerializer.columns())  # type: ignore[misc]  # computed


def require_management(user: User, gpu: Gpu) -> None:
    """Raise ApplianceError DENIED if the user manages neither the GPU nor what is above it."""
    if not can(user, actions.MANAGE, None):
        require_at(user, actions.MANAGE, gpu.places())


class GpuListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    @extend_schema(parameters=GPUS.parameters, responses=GpuSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the GPUs that the caller may view."""
        GPUS.reject_unknown_parameters(request)
        page, user = GPUS.page(request), request_user(request)
        wanted = parse_filters(request, GPU_FILTERS, check_names=False)
        by_place = not can(user, VIEW, None) and inventory_places(user, VIEW)
        if "labels" in wanted or by_place or "order" in request.query_params:
            found = page.paginate_queryset(matching_gpus(request).with_names(user), request)
        else:
            found = prepared_page(request, page, wanted)
        return GPUS.respond_with(request, page, found, lambda: matching_gpus(request).count())


def matching_gpus(request: Request) -> GpuQuerySet:
    return apply_filters(
        request, Gpu.objects.visible_to(request_user(request)), GPU_FILTERS, check_names=False
    )


def prepared_page(request: Request, page: CursorPagination, wanted: Mapping[str, Any]) -> list[Any]:
    """Read a page of GPUs, the most frequent query, with a prepared statement.

    Only for callers with the privilege on the appliance or in a project: they may view all nodes.
    """
    limit, after = page.bounds(request)
    projects = projects_with(request_user(request), "inventory.view")
    values: dict[str, Any] = {"all_pools": projects is None, **wanted}
    if after:
        values["after"] = after
    if projects is not None:
        restricted = SELECT_RESTRICTED_POOLS.rows()
        if hidden := [pk for pk, allowed in restricted if not is_open_to(allowed, projects)]:
            values["hidden"] = hidden
    rows = [GpuRow(*row) for row in gpu_pages(limit).rows(**values)]
    return page.cut(rows, limit, lambda row: row.id)


@lru_cache(64)
def gpu_pages(limit: int) -> Select[Gpu]:
    """Return the query of a page, newest GPU first, with one row more than the limit."""

    def build(
        all_pools: bool, hidden: Collection[UUID] = (), after: UUID | None = None, **wanted: Any
    ) -> QuerySet[Gpu, Any]:
        rows = Gpu.objects.exclude(node__state=NodeState.REMOVED)
        rows = rows if all_pools else rows.in_other_pools(hidden)
        rows = rows if after is None else rows.filter(pk__lt=after)
        lookups = {GPU_FILTERS[name][0]: value for name, value in wanted.items()}
        rows = rows.filter(**lookups).with_names(None).order_by("-pk")
        return rows.values_list(*GpuRow._fields)[: limit + 1]

    return Select(build)


class GpuView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "inventory.view",
        "PATCH": actions.UPDATE_GPU.privilege,
    }
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET", "PATCH"})

    get = GPUS.shows("Return one GPU.")

    @GPUS.changes(GpuChangeSerializer, rows=Gpu.objects.visible_to, permit=require_management)
    def patch(self, user: User, gpu: Gpu, values: Values) -> Gpu:
        """Change the labels, notes or pool of a GPU. Existing partitions stay.

        Another pool needs the privilege on the whole appliance.
        """
        if "pool" in values:
            require_privilege(user, actions.MANAGE)
        services.update_gpu(gpu_id=gpu.pk, values=values, actor=user.username)
        return Gpu.objects.with_names(user).get(pk=gpu.pk)


class GpuAdmitView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": actions.ADMIT.privilege}

    @GPUS.changes(GpuAdmissionSerializer, rows=Gpu.objects.visible_to)
    def post(self, user: User, gpu: Gpu, values: Values) -> Gpu:
        """Admit a held GPU to a pool."""
        gpu_admission.admit_gpu(gpu_id=gpu.pk, pool_name=values.get("pool"), actor=user.username)
        return Gpu.objects.with_names(user).get(pk=gpu.pk)


class GpuMetricHistoryView(MetricHistoryView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    def find_series(self, request: Request, object_id: UUID) -> UUID:
        return get_object_or_404(Gpu.objects.visible_to(request_user(request)), pk=object_id).pk


def gpu_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    """Yield the rows of GPUs for the feed."""
    for gpu in Gpu.objects.select_related("pool").with_names(None).filter(pk__in=ids):
        audience = gpu.pool.audience if gpu.pool else NO_PROJECT
        yield gpu.pk, "inventory.view", audience, serialize(GpuSerializer, gpu)


def visible_gpu_ids(user: User, gpu_ids: Collection[str]) -> set[str]:
    """Return the ids of existing GPUs that the user may view; other text is ignored."""
    ids = [i for i in gpu_ids if is_uuid(i)]
    visible = Gpu.objects.visible_to(user)
    found = {
        str(pk)
        for begin in range(0, len(ids), MAX_IDS_A_QUERY)
        for pk in visible.filter(pk__in=ids[begin : begin + MAX_IDS_A_QUERY]).values_list(
            "pk", flat=True
        )
    }
    return found.intersection(gpu_ids)


def is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


hub.visible = visible_gpu_ids
hub.register("gpu", gpu_rows)
