"""Django configuration of the package."""

from __future__ import annotations

from django.apps import AppConfig


class AllocationsConfig(AppConfig):
    name = "appliance.allocations"

    def ready(self) -> None:
        """Register the blockers of pools."""
        from appliance.allocations import pool_blockers  # noqa: F401  # needs loaded models
