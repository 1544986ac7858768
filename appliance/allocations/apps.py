"""Django configuration of the package."""

from __future__ import annotations

from django.apps import AppConfig


class AllocationsConfig(AppConfig):
    name = "appliance.allocations"

    def ready(self) -> None:
        """Register the blockers of pools, users and projects, and the changes of grants."""
        from appliance.allocations import (  # noqa: F401  # they need loaded models
            account_dependents,
            pool_blockers,
            pool_grants,
        )
