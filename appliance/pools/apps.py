"""Django configuration of the package."""

from __future__ import annotations

from django.apps import AppConfig


class PoolsConfig(AppConfig):
    name = "appliance.pools"

    def ready(self) -> None:
        """Register what depends on projects."""
        from appliance.pools import account_dependents  # noqa: F401  # needs loaded models
