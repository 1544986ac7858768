"""Mark the GPUs that several nodes report. The constraint follows in a migration of its own, because
PostgreSQL creates no index in a transaction that has changed references of the table."""

from typing import Any

from django.db import migrations
from django.db.models import Count


def mark_duplicates(apps: Any, schema_editor: Any) -> None:
    """Give the claim to the GPU in use, then to the oldest one. GPUs of removed nodes have none."""
    gpus = apps.get_model("inventory", "Gpu").objects
    gpus.filter(node__state="removed").update(present=False)
    present = gpus.filter(present=True)
    repeated = present.values("uuid").annotate(count=Count("pk")).filter(count__gt=1)
    for uuid in list(repeated.values_list("uuid", flat=True)):
        rows = present.filter(uuid=uuid).order_by("-taken_percent", "pk")
        first, *others = rows.values_list("pk", flat=True)
        gpus.filter(pk__in=others).update(duplicate_of_id=first)


class Migration(migrations.Migration):

    dependencies = [
        ("inventory", "0014_gpu_duplicates"),
    ]

    operations = [
        migrations.RunPython(mark_duplicates, migrations.RunPython.noop),
    ]
