"""The stored settings."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

ROW_ID = 1


class StoredSettings(models.Model):
    """The settings that differ from their defaults, one row. Without it all have defaults."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=ROW_ID)
    values = models.JSONField(default=dict)
    """Section to names and values."""
    secrets = models.JSONField(default=dict)
    """Section to names and encrypted values."""
    version = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField(default=timezone.now)

    @property
    def hidden(self) -> list[str]:
        """Names of the settings whose values are never shown and that are set, for the audit."""
        return sorted(f"{s}.{name}" for s, names in self.secrets.items() for name in names)
