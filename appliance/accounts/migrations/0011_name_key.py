from typing import Any

from django.db import migrations

from appliance.accounts.models import NameKeyField
from appliance.api.account_names import comparison_key


def fill(apps: Any, schema_editor: Any) -> None:
    """Give each account its key. Of accounts with the same one, only the oldest gets it."""
    model, seen = apps.get_model("accounts", "User"), set()
    for pk, username in model.objects.order_by("pk").values_list("pk", "username"):
        key = comparison_key(username)
        if key not in seen:
            model.objects.filter(pk=pk).update(name_key=key)
        seen.add(key)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0010_sign_in'),
    ]

    operations = [
        migrations.AddField(
            model_name='user',
            name='name_key',
            field=NameKeyField(editable=False, max_length=1000, null=True, unique=True),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
