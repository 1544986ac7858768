"""Audit records as JSON: in REST, in exports and in syslog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import orjson

from appliance.api.serialization import RowSerializer, serialize
from appliance.audit.chain import CANONICAL_FIELDS
from appliance.audit.models import AuditRecord


class AuditRecordSerializer(RowSerializer[AuditRecord]):
    class Meta:
        model = AuditRecord
        fields = (*CANONICAL_FIELDS, "hash")
        extra_kwargs: ClassVar[dict[str, Any]] = {
            "actor": {
                "allow_blank": True,
                "help_text": "Username; `system` for the appliance itself, empty for a request "
                "without a valid token.",
            },
            "action": {
                "allow_blank": True,
                "help_text": "Operation id of the OpenAPI document; empty where further refusals "
                "of a minute are counted together.",
            },
            "before": {
                "help_text": "Changed fields and the version before the change; empty if created."
            },
            "after": {
                "help_text": "Changed fields and the version after the change; empty if deleted."
            },
            "code": {"help_text": "Error code of a refusal."},
            "count": {"help_text": "Refusals with this address, actor and code within the minute."},
            "request_id": {"help_text": "The response header Busbar-Request of the request."},
            "sequence": {"help_text": "Place in the chain; null until the record is sealed."},
            "hash": {"help_text": "SHA-256 of the previous record's hash and this record."},
        }


def record_as_json(record: AuditRecord) -> dict[str, Any]:
    return serialize(AuditRecordSerializer, record)


def json_lines(records: Iterable[AuditRecord]) -> bytes:
    """Return one line of JSON for each record."""
    return b"".join(orjson.dumps(record_as_json(r)) + b"\n" for r in records)
