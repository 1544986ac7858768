from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0018_node_resizes_allocations"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpu",
            name="context_bytes",
            field=models.PositiveBigIntegerField(default=0),
        ),
    ]
