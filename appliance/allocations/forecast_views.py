"""Why a request waits, when it is expected to start, what would start at once; and which moves would make GPUs whole."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.models import Project
from appliance.accounts.permissions import projects_with
from appliance.allocations import book, defragment, forecast, time_to_gpu
from appliance.allocations.models import Allocation
from appliance.pools.models import Pool
from appliance.rest import ApplianceView, a_time, caller, refuse_unknown_parameters, text


class AlternativeSerializer(serializers.Serializer[dict[str, Any]]):
    difference = serializers.CharField(help_text="From what was asked for.")
    pool = serializers.CharField()
    gpu_count = serializers.IntegerField()
    percent = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    same_node = serializers.BooleanField()
    preemptible = serializers.BooleanField()


class ExplanationSerializer(serializers.Serializer[dict[str, Any]]):
    state = serializers.CharField()
    rule = serializers.CharField(
        allow_blank=True,
        help_text="room, limit, quota, reservation, ahead or reclaim; empty when it does not wait.",
    )
    reason = serializers.CharField(allow_blank=True)
    expected_start_at = serializers.DateTimeField(
        allow_null=True, help_text="Null: nobody's end that it needs is known."
    )
    alternatives = AlternativeSerializer(many=True)


class MoveSerializer(serializers.Serializer[dict[str, Any]]):
    allocation_id = serializers.UUIDField()
    from_gpu_id = serializers.UUIDField()
    to_gpu_id = serializers.UUIDField()
    compute_percent = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()


class DefragmentationSerializer(serializers.Serializer[dict[str, Any]]):
    whole_gpus = serializers.IntegerField(help_text="That are entirely free now.")
    whole_gpus_after = serializers.IntegerField()
    moves = MoveSerializer(many=True)


class AllocationExplanationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    @extend_schema(responses=ExplanationSerializer)
    def get(self, request: Request, allocation_id: UUID) -> Response:
        """Works on what is there at this moment; nothing is promised."""
        allocation = get_object_or_404(
            Allocation.objects.visible_to(caller(request)), pk=allocation_id
        )
        answer: dict[str, Any] = {
            "state": allocation.state,
            "rule": allocation.waiting_rule,
            "reason": allocation.waiting_reason,
        }
        opened, waiting = book.opened()
        waiters = [w for _, w in waiting.values()]
        mine = next((w for w in waiters if w.allocation_id == allocation.pk), None)
        answer["expected_start_at"] = (
            forecast.expected_start(opened, waiters, allocation.pk) if mine else None
        )
        answer["alternatives"] = [
            {
                "difference": a.difference, "pool": opened.pools[a.pool_id].name, "gpu_count": a.waiter.request.gpu_count, "percent": a.waiter.request.percent,
                "memory_bytes": a.waiter.request.memory_bytes, "same_node": a.waiter.request.same_node, "preemptible": a.waiter.preemptible,
            }
            for a in (forecast.alternatives(opened, mine) if mine else ())
        ]  # fmt: skip
        return Response(ExplanationSerializer(answer).data)


class PoolDefragmentationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.manage"}

    @extend_schema(responses=DefragmentationSerializer)
    def get(self, request: Request, pool_id: UUID) -> Response:
        """A plan, not a deed: partitions cannot be moved yet."""
        pool = get_object_or_404(Pool.objects.visible_to(caller(request)), pk=pool_id)
        rooms = book.rooms().get(pool.pk, [])
        here = {g.gpu_id for g in rooms}
        moves = defragment.plan(
            rooms,
            {
                a: [s for s in h.shares if s.gpu_id in here]
                for a, h in book.holders().items()
                if h.pool_id == pool.pk
            },
        )
        whole = sum(g.free_percent == 100 for g in rooms)
        return Response(
            DefragmentationSerializer(
                {
                    "whole_gpus": whole,
                    "whole_gpus_after": whole + len({m.from_gpu_id for m in moves}),
                    "moves": moves,
                }
            ).data
        )


class TimeToGpuClassSerializer(serializers.Serializer[dict[str, Any]]):
    name = serializers.CharField()
    least_priority = serializers.IntegerField()
    target_seconds = serializers.FloatField(allow_null=True, help_text="Null: nothing is promised.")
    count = serializers.IntegerField(help_text="That got their GPUs.")
    p50_seconds = serializers.FloatField(allow_null=True)
    p90_seconds = serializers.FloatField(allow_null=True)
    p99_seconds = serializers.FloatField(allow_null=True)
    within_target_share = serializers.FloatField(allow_null=True, help_text="From 0 to 1.")
    waiting = serializers.IntegerField(help_text="That wait now.")
    longest_waiting_seconds = serializers.FloatField(allow_null=True)


class TimeToGpuSerializer(serializers.Serializer[dict[str, Any]]):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    items = TimeToGpuClassSerializer(many=True)


class TimeToGpuView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}
    refusals: ClassVar[frozenset[int]] = frozenset({404})

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "since", datetime, description="When it was asked for; a day ago without it."
            ),
            OpenApiParameter("until", datetime),
            OpenApiParameter("project", str, description="Its name; all that one sees without it."),
        ],
        responses=TimeToGpuSerializer,
    )
    def get(self, request: Request) -> Response:
        """From asking to a GPU that is ready: how long it took, by class, and how often that was within what the class is promised."""
        refuse_unknown_parameters(request, ["since", "until", "project"])
        now, given = timezone.now(), request.query_params
        since = a_time(given["since"]) if "since" in given else now - timedelta(days=1)
        until = a_time(given["until"]) if "until" in given else now
        projects = projects_with(caller(request), "allocations.view")
        if "project" in given:
            named = (
                Project.objects.filter(name=text(given["project"]))
                .values_list("pk", flat=True)
                .first()
            )
            if named is None or (projects is not None and named not in projects):
                raise Http404
            projects = [named]
        found, begin = time_to_gpu.measured(since=since, until=until, projects=projects, now=now)
        items = [
            {
                **asdict(f.service_class),
                **{k: v for k, v in asdict(f).items() if k != "service_class"},
            }
            for f in found
        ]
        return Response(TimeToGpuSerializer({"since": begin, "until": until, "items": items}).data)
