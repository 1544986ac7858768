"""REST views that explain why a request waits and plan the defragmentation of a pool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.allocations import defragment, forecast
from appliance.allocations.active_allocations import load_active_allocations
from appliance.allocations.models import Allocation
from appliance.allocations.snapshot import SchedulerSnapshot
from appliance.allocations.snapshot_gpus import load_pool_gpus
from appliance.allocations.snapshot_loader import load_snapshot
from appliance.api.views import ApplianceView
from appliance.pools.models import Pool


class AlternativeSerializer(serializers.Serializer[forecast.Alternative]):
    difference = serializers.CharField(help_text="Difference from the request.")
    pool = serializers.CharField(help_text="Name of the pool.")
    gpu_count = serializers.IntegerField(source="pending.request.gpu_count")
    percent = serializers.IntegerField(source="pending.request.percent")
    memory_bytes = serializers.IntegerField(source="pending.request.memory_bytes")
    same_node = serializers.BooleanField(source="pending.request.same_node")
    preemptible = serializers.BooleanField(source="pending.preemptible")


class ExplanationSerializer(serializers.Serializer[dict[str, Any]]):
    state = serializers.CharField()
    rule = serializers.CharField(
        allow_blank=True,
        help_text="The rule that keeps the request or the resize in the queue: capacity, limit, "
        "quota, reservation, ahead, reclaim or error. Empty during a suspension, and if nothing is "
        "queued.",
    )
    reason = serializers.CharField(allow_blank=True)
    expected_start_at = serializers.DateTimeField(
        allow_null=True,
        help_text="Forecast of the start. Null if there is none; expected_start_reason tells why.",
    )
    expected_start_reason = serializers.CharField(
        allow_blank=True,
        help_text="Why no start of what is queued is expected. Empty if one is.",
    )
    alternatives = AlternativeSerializer(
        many=True, help_text="Similar requests that would start at once."
    )


class MoveSerializer(serializers.Serializer[defragment.Move]):
    allocation_id = serializers.UUIDField()
    from_gpu_id = serializers.UUIDField()
    to_gpu_id = serializers.UUIDField()
    compute_percent = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()


class DefragmentationSerializer(serializers.Serializer[dict[str, Any]]):
    whole_gpus = serializers.IntegerField(help_text="Number of GPUs without partitions.")
    whole_gpus_after = serializers.IntegerField(help_text="The same number after all moves.")
    moves = MoveSerializer(many=True)


class AllocationExplanationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    @extend_schema(responses=ExplanationSerializer)
    def get(self, request: Request, allocation_id: UUID) -> Response:
        """Explain why an allocation or its resize is queued and forecast its start.

        The forecast considers the current allocations and requests only.
        """
        allocation = get_object_or_404(
            Allocation.objects.visible_to(request_user(request)), pk=allocation_id
        )
        snapshot, queued = load_snapshot()
        _, pending = queued.get(allocation.pk, (None, None))
        expected_start_at, alternatives = None, list[forecast.Alternative]()
        expected_start_reason = ""
        if pending:
            requests = [p for _, p in queued.values()]
            expected_start_at = forecast.expected_start(snapshot, requests, allocation.pk)
            if expected_start_at is None:
                expected_start_reason = forecast.reason_without_start(
                    snapshot, requests, allocation.pk
                )
            alternatives = forecast.alternatives(usable(snapshot, allocation), pending)
        elif allocation.waiting_reason:
            ends = allocation.evict_at is not None
            expected_start_reason = "it ends before" if ends else "not while the reason holds"
        explanation = {
            "state": allocation.state,
            "rule": allocation.waiting_rule,
            "reason": allocation.waiting_reason,
            "expected_start_at": expected_start_at,
            "expected_start_reason": expected_start_reason,
            "alternatives": alternatives,
        }
        return Response(ExplanationSerializer(explanation).data)


def usable(snapshot: SchedulerSnapshot, allocation: Allocation) -> SchedulerSnapshot:
    """Return the snapshot without the pools that are restricted to other projects."""
    hidden = set(Pool.objects.restricted_from([allocation.project_id]))
    pools = {i: pool for i, pool in snapshot.pools.items() if i not in hidden}
    return replace(snapshot, pools=pools)


class PoolDefragmentationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.manage"}

    @extend_schema(responses=DefragmentationSerializer)
    def get(self, request: Request, pool_id: UUID) -> Response:
        """Return the moves of partitions that would empty GPUs of a pool.

        Moves are not carried out: partitions cannot be moved yet.
        """
        pool = get_object_or_404(Pool.objects.visible_to(request_user(request)), pk=pool_id)
        gpus = load_pool_gpus().get(pool.pk, [])
        gpu_ids = {g.gpu_id for g in gpus}
        shares = {
            allocation_id: [s for s in a.shares if s.gpu_id in gpu_ids]
            for allocation_id, a in load_active_allocations().items()
            if a.pool_id == pool.pk
        }
        moves = defragment.plan_moves(gpus, shares)
        whole = sum(g.free_percent == 100 for g in gpus)
        plan = {
            "whole_gpus": whole,
            "whole_gpus_after": whole + len({m.from_gpu_id for m in moves}),
            "moves": moves,
        }
        return Response(DefragmentationSerializer(plan).data)
