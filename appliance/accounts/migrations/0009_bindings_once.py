from collections.abc import Sequence
from typing import Any

from django.db import migrations

from appliance.db.unique_with_nulls import unique_with_nulls

PLACES = ["project", "department", "site", "node", "gpu", "pool"]


def merge(model: Any, columns: Sequence[str]) -> None:
    """Keep the oldest of equal rows. SQLite did not refuse the others, which grant nothing more."""
    seen, repeated = set(), []
    for row in model.objects.order_by("pk").values_list("pk", *columns):
        if row[1:] in seen:
            repeated.append(row[0])
        seen.add(row[1:])
    for start in range(0, len(repeated), 500):
        model.objects.filter(pk__in=repeated[start : start + 500]).delete()


def merge_duplicates(apps: Any, schema_editor: Any) -> None:
    columns = ["user_id", "group_id", *(f"{place}_id" for place in PLACES), "role"]
    merge(apps.get_model("accounts", "RoleBinding"), columns)
    merge(apps.get_model("accounts", "GroupMember"), ["group_id", "user_id", "member_group_id"])


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0008_inventory_bindings'),
    ]

    operations = [
        migrations.RunPython(merge_duplicates, migrations.RunPython.noop),
        migrations.RemoveConstraint(
            model_name='groupmember',
            name='group_member_once',
        ),
        migrations.RemoveConstraint(
            model_name='rolebinding',
            name='role_binding_once',
        ),
        migrations.AddConstraint(
            model_name='groupmember',
            constraint=unique_with_nulls(ids=['group', 'user', 'member_group'], name='group_member_once'),
        ),
        migrations.AddConstraint(
            model_name='rolebinding',
            constraint=unique_with_nulls(ids=['user', 'group', *PLACES], others=['role'], name='role_binding_once'),
        ),
    ]
