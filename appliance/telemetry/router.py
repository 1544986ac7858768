"""Database router: telemetry uses the database "metrics" if there is one (SQLite).

With PostgreSQL all tables lie in one database.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

APP = "telemetry"


def metrics_database() -> str:
    return "metrics" if "metrics" in settings.DATABASES else "default"


class MetricsRouter:
    def db_for_read(self, model: Any, **hints: object) -> str | None:
        return metrics_database() if model._meta.app_label == APP else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        return (db == metrics_database()) if app_label == APP else db == "default"
