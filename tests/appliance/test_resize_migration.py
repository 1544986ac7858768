"""The migrations of resizes know what was granted before them."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from appliance.allocations.models import Allocation, Partition
from tests.appliance.conftest import GIB
from tests.appliance.test_binding_migration import migrate

BEFORE = ("allocations", "0012_received_share")


@pytest.mark.django_db(transaction=True)
def test_migrations_keep_the_mode_in_force_and_what_is_to_be_returned() -> None:
    latest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    apps = migrate([BEFORE, *(name for name in latest if name[0] != BEFORE[0])])
    try:
        user = apps.get_model("accounts", "User").objects.create(username="u")
        project = apps.get_model("accounts", "Project").objects.create(name="p")
        node = apps.get_model("inventory", "Node").objects.create(name="n")
        gpu = apps.get_model("inventory", "Gpu").objects.create(
            node=node, uuid=uuid.uuid4(), index=0, model="Test GPU", memory_bytes=8 * GIB
        )
        allocation = apps.get_model("allocations", "Allocation").objects.create(
            owner=user, project=project, state="active", percent=20, compute_mode="capped"
        )
        apps.get_model("allocations", "Partition").objects.create(
            allocation=allocation,
            gpu=gpu,
            position=0,
            memory_bytes=GIB,
            over_bytes=3 * GIB,
            compute_percent=20,
            generation=1,
            resizing=True,
        )
    finally:
        MigrationExecutor(connection).migrate(latest)
    (after,) = Allocation.objects.all()
    assert after.granted_compute_mode == "capped"
    assert Partition.objects.get().shrink_bytes == 3 * GIB
    assert after.resize is not None and after.resize.returned_bytes == 0
