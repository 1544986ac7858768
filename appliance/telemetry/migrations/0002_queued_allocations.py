"""Rename the metric `waiting_allocations` to `queued_allocations`."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def rename_metric(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    metric_sets = apps.get_model("telemetry", "MetricSet").objects.using(
        schema_editor.connection.alias
    )
    for metric_set in metric_sets.all():
        if "waiting_allocations" in metric_set.names:
            metric_set.names = [
                "queued_allocations" if name == "waiting_allocations" else name
                for name in metric_set.names
            ]
            metric_set.save(update_fields=["names"])


class Migration(migrations.Migration):
    dependencies = [("telemetry", "0001_initial")]

    operations = [migrations.RunPython(rename_metric, migrations.RunPython.noop)]
