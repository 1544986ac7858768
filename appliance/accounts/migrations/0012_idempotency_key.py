"""Take the class IdempotencyKey over from the app `activity`. Its table stays as it is."""

from __future__ import annotations

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import appliance.db.identifiers


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0011_name_key"),
        ("activity", "0005_retention"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="IdempotencyKey",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=appliance.db.identifiers.uuid7,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("key", models.CharField(max_length=200)),
                        ("request_sha256", models.CharField(max_length=64)),
                        ("status", models.PositiveSmallIntegerField()),
                        ("answer", models.JSONField()),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "db_table": "activity_idempotencykey",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("user", "key"), name="idempotency_key_once"
                            )
                        ],
                    },
                )
            ]
        )
    ]
