"""Django configuration of the package."""

from __future__ import annotations

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "appliance.notifications"

    def ready(self) -> None:
        """Have users told of their new passwords."""
        from appliance.notifications import password_notices  # noqa: F401  # needs loaded models
