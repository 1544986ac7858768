"""Audit records and the state of their chain."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone

from appliance.db.identifiers import uuid7


class Outcome(models.TextChoices):
    SUCCEEDED = "succeeded"
    REFUSED = "refused"


class AuditRecord(models.Model):
    """An operation on an object, with its actor, address, changes and outcome.

    Refers to rows by id and name only, so that it outlives them. Only the sealer changes a record,
    once; before that, repeats increase the count of a refusal.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=150)
    token_id = models.UUIDField(null=True)
    token_name = models.CharField(max_length=100, blank=True)
    address = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=100)
    """Operation id of the OpenAPI document, or kind and verb of a change by the appliance."""
    object_kind = models.CharField(max_length=40, blank=True)
    object_id = models.UUIDField(null=True)
    object_name = models.CharField(max_length=300, blank=True)
    project_id = models.UUIDField(null=True)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    """Changed fields, before and after. Empty `before`: created; empty `after`: deleted."""
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.SUCCEEDED)
    code = models.CharField(max_length=40, blank=True)
    """Error code of a refusal."""
    count = models.PositiveIntegerField(default=1)
    """Refusals with this address, actor and code within one minute."""
    request_id = models.UUIDField(null=True)
    sequence = models.PositiveBigIntegerField(null=True, unique=True)
    """Place in the chain; null until the record is sealed."""
    hash = models.CharField(max_length=64, blank=True)
    """SHA-256 of the previous record's hash and this record (audit/chain.py)."""

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["id"],
                name="audit_unsealed",
                condition=models.Q(sequence__isnull=True),
            ),
            models.Index(fields=["object_id", "id"], name="audit_by_object"),
            models.Index(fields=["actor", "id"], name="audit_by_actor"),
        ]


class AuditChain(models.Model):
    """The ends of the chain, one row. Each process that seals, exports or removes locks it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    sequence = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64, blank=True)
    """The newest sealed record."""
    removed_sequence = models.PositiveBigIntegerField(default=0)
    removed_hash = models.CharField(max_length=64, blank=True)
    """The last record that retention removed; the chain continues from its hash."""
    exported_sequence = models.PositiveBigIntegerField(default=0)
    """The last record that was sent to the syslog server."""
