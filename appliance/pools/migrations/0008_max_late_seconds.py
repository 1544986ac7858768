from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("pools", "0007_simulated"),
    ]

    operations = [
        migrations.AddField(
            model_name="pool",
            name="max_late_seconds",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
    ]
