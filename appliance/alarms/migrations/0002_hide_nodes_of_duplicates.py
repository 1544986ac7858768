"""Take the name of another node out of what is recorded about GPUs that two nodes report. Messages
named it until alarms and REST were to show it only to those who may view that node."""

from typing import Any

from django.db import migrations

OLD, NEW = " is held, because it is also ", " is held, because another node has the same GPU."


def hide_nodes(apps: Any, schema_editor: Any) -> None:
    """Rewrite alarms, and their history and events. What users wrote themselves stays."""
    alarms, entries = apps.get_model("alarms", "Alarm"), apps.get_model("alarms", "AlarmEntry")
    for rows in (
        alarms.objects.filter(object_kind="gpu"),
        entries.objects.filter(kind="raised"),
        apps.get_model("activity", "Event").objects.filter(kind="alarm.raised"),
    ):
        for row in rows.filter(message__contains=OLD).only("message"):
            row.message = row.message.partition(OLD)[0] + NEW
            row.save(update_fields=["message"])


class Migration(migrations.Migration):

    dependencies = [
        ("activity", "0001_initial"),
        ("alarms", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(hide_nodes, migrations.RunPython.noop),
    ]
