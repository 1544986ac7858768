"""The compute mode in force, which is the requested one until an active allocation changes it."""

from django.db import migrations, models
from django.db.models import F


def copy_modes(apps, schema_editor):
    apps.get_model("allocations", "Allocation").objects.update(
        granted_compute_mode=F("compute_mode")
    )


class Migration(migrations.Migration):

    dependencies = [
        ("allocations", "0012_received_share"),
    ]

    operations = [
        migrations.AddField(
            model_name="allocation",
            name="granted_compute_mode",
            field=models.CharField(default="shared", max_length=20),
        ),
        migrations.RunPython(copy_modes, migrations.RunPython.noop),
    ]
