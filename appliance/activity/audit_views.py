"""REST resource audit record: list, export and verification of the chain."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.authorization import require_privilege
from appliance.accounts.models import User
from appliance.accounts.permissions import projects_with
from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import (
    Filter,
    apply_filters,
    filter_parameters,
    parse_choice,
    parse_id,
    parse_text,
    parse_time,
    reject_unknown_parameters,
)
from appliance.api.pagination import CursorPagination
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView
from appliance.audit import chain, export
from appliance.audit.models import AuditRecord, Outcome
from appliance.audit.wire import AuditRecordSerializer, json_lines

PRIVILEGE = "audit.read"
MAX_RECORDS = 2000
"""Records of one response of the export and of the verification."""
AUDIT_FILTERS: dict[str, tuple[str, Filter]] = {
    "actor": ("actor", parse_text),
    "address": ("address", parse_text),
    "action": ("action", parse_text),
    "object_kind": ("object_kind", parse_text),
    "object_id": ("object_id", parse_id),
    "request_id": ("request_id", parse_id),
    "outcome": ("outcome", parse_choice(*Outcome.values)),
    "code": ("code", parse_text),
    "since": ("created_at__gte", parse_time),
    "until": ("created_at__lt", parse_time),
}
AFTER = OpenApiParameter(
    "after", int, description="Sequence number of the last record that is known. Default: 0."
)
LIMIT = OpenApiParameter(
    "limit", int, description=f"Number of records, at most and by default {MAX_RECORDS}."
)


class ProblemSerializer(serializers.Serializer[dict[str, Any]]):
    sequence = serializers.IntegerField()
    reason = serializers.ChoiceField(
        ("changed", "removed"), help_text="`changed` is a record with other content or place."
    )

    class Meta:
        ref_name = "AuditProblem"


class VerificationSerializer(serializers.Serializer[dict[str, Any]]):
    sequence = serializers.IntegerField(help_text="The last record that was verified.")
    hash = serializers.CharField(help_text="Its hash, for `after_hash` of the next request.")
    newest_sequence = serializers.IntegerField(
        help_text="The newest sealed record. If it is greater, verify what follows `sequence`."
    )
    problem = ProblemSerializer(
        allow_null=True, help_text="The first record that is not as it was sealed; null if none."
    )


def visible_records(user: User) -> QuerySet[AuditRecord]:
    """Return all records, or those of the projects in which the user has the privilege."""
    projects = projects_with(user, PRIVILEGE)
    rows = AuditRecord.objects.all()
    return rows if projects is None else rows.filter(project_id__in=projects)


def parse_number(request: Request, name: str, default: int, maximum: int) -> int:
    """Return a parameter. Raises ApplianceError INVALID."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) <= maximum):
        raise ApplianceError(Code.INVALID, f"{name} must be a number from 0 to {maximum}.")
    return int(text)


class AuditListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": PRIVILEGE}

    @extend_schema(
        parameters=filter_parameters(AUDIT_FILTERS), responses=AuditRecordSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        """List audit records, newest first.

        Auditors of a project see the records of its objects.
        """
        rows = apply_filters(request, visible_records(request_user(request)), AUDIT_FILTERS)
        page = CursorPagination()
        found = page.paginate_queryset(rows, request)
        return page.get_paginated_response([serialize(AuditRecordSerializer, row) for row in found])


class AuditView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": PRIVILEGE}

    @extend_schema(responses=AuditRecordSerializer)
    def get(self, request: Request, record_id: UUID) -> Response:
        """Return one audit record."""
        row = get_object_or_404(visible_records(request_user(request)), pk=record_id)
        return Response(serialize(AuditRecordSerializer, row))


class AuditExportView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": PRIVILEGE}

    @extend_schema(
        parameters=[AFTER, LIMIT], responses={(200, "application/x-ndjson"): OpenApiTypes.STR}
    )
    def get(self, request: Request) -> HttpResponse:
        """Return sealed audit records as JSON lines, in the order of the chain.

        Repeat with `after` set to the last `sequence` until the response is empty. Needs the
        privilege on the whole appliance.
        """
        require_privilege(request_user(request), PRIVILEGE)
        reject_unknown_parameters(request, ["after"])
        after = parse_number(request, "after", 0, 1 << 62)
        limit = parse_number(request, "limit", MAX_RECORDS, MAX_RECORDS)
        rows = export.sealed_after(after, limit)
        return HttpResponse(json_lines(rows), content_type="application/x-ndjson")


class AuditVerificationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": PRIVILEGE}

    @extend_schema(
        parameters=[
            AFTER,
            OpenApiParameter("after_hash", str, description="Hash of that record."),
            LIMIT,
        ],
        responses=VerificationSerializer,
    )
    def get(self, request: Request) -> Response:
        """Verify the chain of sealed audit records, a part in each request.

        Finds records that were changed, removed or moved after they were sealed, and names the
        first one. Needs the privilege on the whole appliance.
        """
        require_privilege(request_user(request), PRIVILEGE)
        reject_unknown_parameters(request, ["after", "after_hash"])
        found = chain.verify(
            parse_number(request, "after", 0, 1 << 62),
            request.query_params.get("after_hash", "")[:64],
            parse_number(request, "limit", MAX_RECORDS, MAX_RECORDS),
        )
        return Response(asdict(found))
