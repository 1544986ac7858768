import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("inventory", "0013_node_simulated"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpu",
            name="duplicate_of",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="duplicates",
                to="inventory.gpu",
            ),
        ),
        migrations.AddIndex(
            model_name="gpu",
            index=models.Index(
                condition=models.Q(("duplicate_of__isnull", False)),
                fields=["duplicate_of"],
                name="gpu_duplicates",
            ),
        ),
    ]
