"""Django configuration of the package."""

from __future__ import annotations

from django.apps import AppConfig

from appliance.db import lock_timeout


class ConfigurationConfig(AppConfig):
    name = "appliance.configuration"

    def ready(self) -> None:
        """Limit the waits for locks of the database."""
        lock_timeout.follow(self)
