"""Mark the GPUs that several nodes report. The constraint follows in a migration of its own, because
PostgreSQL creates no index in a transaction that has changed references of the table."""

from typing import Any

from django.db import migrations
from django.db.models import Case, Count, Q, When


def mark_duplicates(apps: Any, schema_editor: Any) -> None:
    """Give the claim to the GPU in use, then to the oldest one. GPUs of removed nodes have none.

    A missing GPU in use has the claim as well, because its programs may still run.
    """
    gpus = apps.get_model("inventory", "Gpu").objects
    gpus.filter(node__state="removed").update(present=False)
    in_use = Q(taken_percent__gt=0) | Q(taken_memory_bytes__gt=0)
    rows = gpus.filter(Q(present=True) | in_use).exclude(node__state="removed")
    repeated = rows.values("uuid").annotate(count=Count("pk")).filter(count__gt=1)
    for uuid in list(repeated.values_list("uuid", flat=True)):
        same = rows.filter(uuid=uuid).order_by(
            Case(When(in_use, then=0), default=1), "-present", "-taken_percent", "pk"
        )
        first, *others = same.values_list("pk", flat=True)
        gpus.filter(pk__in=others, present=True).update(duplicate_of_id=first)


class Migration(migrations.Migration):

    dependencies = [
        ("inventory", "0014_gpu_duplicates"),
    ]

    operations = [
        migrations.RunPython(mark_duplicates, migrations.RunPython.noop),
    ]
