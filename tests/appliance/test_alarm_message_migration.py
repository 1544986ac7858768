"""The migration that takes the names of hidden nodes out of old alarms."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from appliance.activity.models import Event
from appliance.alarms.models import Alarm, AlarmEntry
from tests.appliance.test_binding_migration import migrate

OLD = "GPU lab-7/0 is held, because it is also secret-node/3."
NEW = "GPU lab-7/0 is held, because another node has the same GPU."
OTHER = "GPU lab-7/0 waits for admission."


@pytest.mark.django_db(transaction=True)
def test_migration_takes_the_other_node_out_of_alarms_history_and_events() -> None:
    latest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    apps = migrate([("alarms", "0001_initial"), ("activity", "0006_idempotency_key")])
    try:
        alarms, entries = (apps.get_model("alarms", n).objects for n in ("Alarm", "AlarmEntry"))
        for message in (OLD, OTHER):
            alarm = alarms.create(
                name="Held", object_kind="gpu", object_id=uuid.uuid4(), message=message
            )
            entries.create(alarm=alarm, kind="raised", message=message)
            text = f"Held (lab-7/0): {message}"
            apps.get_model("activity", "Event").objects.create(kind="alarm.raised", message=text)
        entries.create(alarm=alarm, kind="acknowledged", actor="li", message=OLD)
        migrate([("alarms", "0002_hide_nodes_of_duplicates")])
        assert [a.message for a in Alarm.objects.order_by("pk")] == [NEW, OTHER]
        assert [e.message for e in AlarmEntry.objects.order_by("pk")] == [NEW, OTHER, OLD]
        events = Event.objects.filter(kind="alarm.raised").order_by("pk")
        assert [e.message for e in events] == [f"Held (lab-7/0): {m}" for m in (NEW, OTHER)]
    finally:
        MigrationExecutor(connection).migrate(latest)
