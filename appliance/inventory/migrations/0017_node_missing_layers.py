from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0016_gpu_claimed_once'),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='missing_layers',
            field=models.JSONField(blank=True, default=list),
        ),
    ]
