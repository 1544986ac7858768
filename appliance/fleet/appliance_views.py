"""Status of the appliance: loop lag, pending writes and reachable nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar

from django.db import connection
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.allocations.index import index
from appliance.api.filters import reject_unknown_parameters
from appliance.api.views import ApplianceView
from appliance.db.writer import waiting_writes
from appliance.inventory.models import Node
from appliance.ipc import messages_pb2 as pb
from appliance.runtime import background, descriptors
from appliance.runtime.loop_lag import lag_seconds
from appliance.telemetry import reachability

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
        help_text="Lag of the event loops in the last minute: the greater one of controller and "
        "HTTP server."
    )
    loop_lag_p99_ms = serializers.FloatField()
    waiting_writes = serializers.IntegerField(help_text="Writes that wait for the writer thread.")
    index_mismatches = serializers.IntegerField(
        help_text="GPUs whose capacity in memory differed from their rows; each was corrected."
    )
    connections = serializers.IntegerField(help_text="Open connections of the HTTPS port.")
    descriptors = serializers.IntegerField(
        help_text="File descriptors that the HTTP server has open."
    )
    descriptor_limit = serializers.IntegerField()
    failed_work = serializers.ListField(
        child=serializers.CharField(),
        help_text="Background work of controller and HTTP server that failed in the last 5 minutes "
        "and was started again; the log has the errors.",
    )


def own_status() -> pb.ControllerStatus:
    """Return the figures of this process."""
    return pb.ControllerStatus(
        waiting_writes=waiting_writes(),
        index_mismatches=index.mismatches,
        loop_lag_p50_seconds=lag_seconds(0.5),
        loop_lag_p99_seconds=lag_seconds(0.99),
        failed_work=background.failed_here(),
    )


count_connections: Callable[[], int] = int
"""Set by the HTTP server."""
controller_status: pb.ControllerStatus | None = None
"""The latest figures that the controller sent, at most 1 s old; None in the controller."""


class ApplianceStatusView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    @extend_schema(responses=ApplianceSerializer)
    def get(self, request: Request) -> Response:
        """Return the version and the state of the appliance.

        The figures of delays are those of the last minute.
        """
        reject_unknown_parameters(request, [])
        own = own_status()
        controller = controller_status or own
        present = list(Node.objects.present().values_list("pk", flat=True))
        status = {
            "version": VERSION,
            "started_at": STARTED_AT,
            "now": timezone.now(),
            "database": connection.vendor,
            "nodes": len(present),
            "reachable_nodes": sum(reachability.is_reachable(n) for n in present),
            "loop_lag_p50_ms": 1e3 * max(controller.loop_lag_p50_seconds, own.loop_lag_p50_seconds),
            "loop_lag_p99_ms": 1e3 * max(controller.loop_lag_p99_seconds, own.loop_lag_p99_seconds),
            "waiting_writes": controller.waiting_writes,
            "index_mismatches": controller.index_mismatches,
            "connections": count_connections(),
            "descriptors": descriptors.in_use(),
            "descriptor_limit": descriptors.limit(),
            "failed_work": background.failed(),
        }
        return Response(ApplianceSerializer(status).data)
