"""Backups that were made and found good."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone

from appliance.db.identifiers import uuid7


class Backup(models.Model):
    """A backup that was checked. The row goes when its file is deleted."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    """Name of the file."""
    destination = models.CharField(max_length=500)
    size_bytes = models.PositiveBigIntegerField()
    sha256 = models.CharField(max_length=64)
    version = models.CharField(max_length=50)
    """Version of the appliance that made it."""
    rows = models.PositiveBigIntegerField()
    """Rows of the database, counted in the scratch database."""
    seconds = models.FloatField()
    """Time that copy, encryption and check have taken."""
    created_at = models.DateTimeField(default=timezone.now)
    """Moment of the copy."""

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["created_at"], name="backup_by_time")
        ]

    @property
    def path(self) -> str:
        return f"backups/{self.pk}"
