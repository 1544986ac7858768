from django.db import migrations, models


def delete_tokens(apps, schema_editor):
    """Delete tokens whose password is unknown; their users sign in again."""
    apps.get_model("accounts", "ApiToken").objects.all().delete()


class Migration(migrations.Migration):

    dependencies = [
        ("accounts", "0002_scheduling"),
    ]

    operations = [
        migrations.RunPython(delete_tokens, migrations.RunPython.noop),
        migrations.AddField(
            model_name="apitoken",
            name="password_sha256",
            field=models.CharField(default="", max_length=64),
            preserve_default=False,
        ),
    ]
