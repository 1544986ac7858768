from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("inventory", "0017_node_missing_layers"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="resizes_allocations",
            field=models.BooleanField(default=False),
        ),
    ]
