"""The appliance about itself: how late it is, and whom it hears."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

from django.db import connection
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.allocations.index import index
from appliance.inventory.models import Node
from appliance.rest import ApplianceView, refuse_unknown_parameters
from appliance.telemetry import latest
from appliance.telemetry.loop_lag import lag_seconds
from appliance.writer import waiting_writes

VERSION = "0.1.0"
STARTED_AT = datetime.now(UTC)


class ApplianceSerializer(serializers.Serializer[dict[str, Any]]):
    version = serializers.CharField()
    started_at = serializers.DateTimeField()
    now = serializers.DateTimeField()
    database = serializers.CharField()
    nodes = serializers.IntegerField(help_text="Enrolled and not removed.")
    reachable_nodes = serializers.IntegerField()
    loop_lag_p50_ms = serializers.FloatField(
        help_text="How late the event loops were in the last minute: that of the two which was later."
    )
    loop_lag_p99_ms = serializers.FloatField()
    waiting_writes = serializers.IntegerField(help_text="Changes that wait for the one writer.")
    index_mismatches = serializers.IntegerField(
        help_text="GPUs that the scheduler had otherwise in memory than in their rows; each was mended."
    )


class Decides(NamedTuple):
    """What only the process knows that changes rows."""

    waiting_writes: int
    index_mismatches: int
    loop_lags_seconds: tuple[float, float]
    """Half of the time, and one in a hundred."""


def here() -> Decides:
    return Decides(waiting_writes(), index.mismatches, (lag_seconds(0.5), lag_seconds(0.99)))


ask_decider: Callable[[], Decides] = here
"""Where another process decides, that one is asked. Blocks."""


class ApplianceStatusView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}

    @extend_schema(responses=ApplianceSerializer)
    def get(self, request: Request) -> Response:
        refuse_unknown_parameters(request, [])
        decides, mine = ask_decider(), (lag_seconds(0.5), lag_seconds(0.99))
        present = list(Node.objects.present().values_list("pk", flat=True))
        status = {
            "version": VERSION,
            "started_at": STARTED_AT,
            "now": timezone.now(),
            "database": connection.vendor,
            "nodes": len(present),
            "reachable_nodes": sum(latest.reachable(n) for n in present),
            "loop_lag_p50_ms": max(decides.loop_lags_seconds[0], mine[0]) * 1e3,
            "loop_lag_p99_ms": max(decides.loop_lags_seconds[1], mine[1]) * 1e3,
            "waiting_writes": decides.waiting_writes,
            "index_mismatches": decides.index_mismatches,
        }
        return Response(ApplianceSerializer(status).data)
