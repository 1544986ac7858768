"""Stored samples and rollups.

With SQLite these tables lie in a database of their own, because losing a second of samples in a
crash is acceptable and losing a grant is not.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class MetricSet(models.Model):
    """The names of the columns of chunks. Many chunks share one set."""

    names = models.JSONField()


class Chunk(models.Model):
    """A period of one series in one resolution, compressed by `rollups.pack`."""

    series_id = models.UUIDField()
    """Id of the measured GPU, partition, session or project."""
    resolution_seconds = models.PositiveIntegerField()
    start_seconds = models.BigIntegerField()
    metric_set = models.ForeignKey(MetricSet, on_delete=models.PROTECT)
    data = models.BinaryField()

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["series_id", "resolution_seconds", "start_seconds"], name="chunk_by_series"
            ),
            models.Index(fields=["resolution_seconds", "start_seconds"], name="chunk_by_age"),
        ]
