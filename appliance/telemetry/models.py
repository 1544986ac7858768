"""What was measured. It lies in a database of its own under SQLite: a lost second of readings is no lost grant."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class MetricSet(models.Model):
    """Names of the columns of chunks; many chunks share one."""

    names = models.JSONField()


class Chunk(models.Model):
    """A stretch of one series in one resolution, compressed (`rollups.packed`)."""

    series_id = models.UUIDField()
    """Of the GPU, partition, session or project that was measured."""
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
