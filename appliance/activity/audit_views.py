"""REST resource audit record: list, export and verification of the chain."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.authorization import require_privilege
from appliance.accounts.models import User
from appliance.accounts.permissions import projects_with
from appliance.accounts.resources import Resource
from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import (
    parse_choice,
    parse_id,
    parse_text,
    parse_time,
    parse_whole_number,
    reject_unknown_parameters,
)
from appliance.api.negotiation import AnyAccept
from appliance.api.views import ApplianceView
from appliance.audit import chain, export
from appliance.audit.models import AuditRecord, Outcome
from appliance.audit.wire import AuditRecordSerializer, json_lines

PRIVILEGE = "audit.read"
MAX_RECORDS = 2000
"""Records of one response of the export and of the verification."""


def visible_records(user: User) -> QuerySet[AuditRecord]:
    """Return all records, or those of the projects in which the user has the privilege."""
    projects = projects_with(user, PRIVILEGE)
    rows = AuditRecord.objects.all()
    return rows if projects is None else rows.filter(project_id__in=projects)


AUDIT = Resource(
    AuditRecordSerializer,
    {
        "sequence": ("sequence", parse_whole_number),
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
    },
    rows=visible_records,
)
MAX_SEQUENCE = 1 << 62
HASH = re.compile("(?:[0-9a-f]{64})?")
AFTER = OpenApiParameter(
    "after",
    {"type": "integer", "minimum": 0, "maximum": MAX_SEQUENCE},
    description="Sequence number of the last record that is known. Default: 0.",
)
AFTER_HASH = OpenApiParameter(
    "after_hash",
    {"type": "string", "pattern": f"^{HASH.pattern}$"},
    description="Hash of that record. Empty: that of the beginning.",
)
LIMIT = OpenApiParameter(
    "limit",
    {"type": "integer", "minimum": 0, "maximum": MAX_RECORDS},
    description=f"Number of records, at most and by default {MAX_RECORDS}.",
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
    hash = serializers.CharField(
        allow_blank=True,
        help_text="Its hash, for `after_hash` of the next request; empty before the first record.",
    )
    newest_sequence = serializers.IntegerField(
        help_text="The newest sealed record. If it is greater, verify what follows `sequence`."
    )
    problem = ProblemSerializer(
        allow_null=True, help_text="The first record that is not as it was sealed; null if none."
    )


def parse_number(request: Request, name: str, default: int, maximum: int) -> int:
    """Return a parameter. Raises ApplianceError INVALID."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= maximum):
        raise ApplianceError(Code.INVALID, f"{name} must be a number from 0 to {maximum}.")
    return int(text)


def parse_hash(request: Request, name: str) -> str:
    """Return a hash, empty without the parameter. Raises ApplianceError INVALID."""
    text = request.query_params.get(name, "")
    if not HASH.fullmatch(text):
        raise ApplianceError(Code.INVALID, f"{name} must be a SHA-256 of 64 lowercase hex digits.")
    return text


class AuditListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": PRIVILEGE}

    get = AUDIT.lists(
        "List audit records, newest first.\n\nAuditors of a project see the records of its objects."
    )


class AuditView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": PRIVILEGE}

    get = AUDIT.shows("Return one audit record.")


class AuditExportView(ApplianceView):
    content_negotiation_class = AnyAccept
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
        after = parse_number(request, "after", 0, MAX_SEQUENCE)
        limit = parse_number(request, "limit", MAX_RECORDS, MAX_RECORDS)
        rows = export.sealed_after(after, limit)
        return HttpResponse(json_lines(rows), content_type="application/x-ndjson")


class AuditVerificationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": PRIVILEGE}

    @extend_schema(parameters=[AFTER, AFTER_HASH, LIMIT], responses=VerificationSerializer)
    def get(self, request: Request) -> Response:
        """Verify the chain of sealed audit records, a part in each request.

        Finds records that were changed, removed or moved after they were sealed, and names the
        first one. Needs the privilege on the whole appliance.
        """
        require_privilege(request_user(request), PRIVILEGE)
        reject_unknown_parameters(request, ["after", "after_hash"])
        found = chain.verify(
            parse_number(request, "after", 0, MAX_SEQUENCE),
            parse_hash(request, "after_hash"),
            parse_number(request, "limit", MAX_RECORDS, MAX_RECORDS),
        )
        return Response(asdict(found))
