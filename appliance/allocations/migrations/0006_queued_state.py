"""Rename the state `waiting` to `queued` and the waiting rule `room` to `capacity`."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def rename_values(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    allocations = apps.get_model("allocations", "Allocation").objects
    allocations.filter(state="waiting").update(state="queued")
    allocations.filter(waiting_rule="room").update(waiting_rule="capacity")


class Migration(migrations.Migration):
    dependencies = [("allocations", "0005_what_nodes_can_do")]

    operations = [
        migrations.AlterField(
            model_name="allocation",
            name="state",
            field=models.CharField(
                choices=[
                    ("queued", "Queued"),
                    ("preparing", "Preparing"),
                    ("active", "Active"),
                    ("suspended", "Suspended"),
                    ("releasing", "Releasing"),
                    ("released", "Released"),
                    ("failed", "Failed"),
                ],
                default="queued",
                max_length=20,
            ),
        ),
        migrations.RunPython(rename_values, migrations.RunPython.noop),
    ]
