from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("inventory", "0015_find_gpu_duplicates"),
    ]

    operations = [
        migrations.AddConstraint(
            model_name="gpu",
            constraint=models.UniqueConstraint(
                condition=models.Q(("duplicate_of__isnull", True), ("present", True)),
                fields=("uuid",),
                name="gpu_claimed_once",
            ),
        ),
    ]
