"""Give the class IdempotencyKey to the app `accounts`. Its table stays as it is."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("activity", "0005_retention"),
        ("accounts", "0012_idempotency_key"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.DeleteModel(name="IdempotencyKey")]
        )
    ]
