"""Adds `shrink_bytes`: the memory that a shrink takes back."""

from django.db import migrations, models
from django.db.models import F


def copy_rest(apps, schema_editor):
    apps.get_model("allocations", "Partition").objects.update(shrink_bytes=F("over_bytes"))


class Migration(migrations.Migration):

    dependencies = [
        ("allocations", "0013_granted_compute_mode"),
    ]

    operations = [
        migrations.AddField(
            model_name="partition",
            name="shrink_bytes",
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.RunPython(copy_rest, migrations.RunPython.noop),
    ]
