"""The migration that makes equal role bindings impossible merges those that exist."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

BEFORE = [("accounts", "0008_inventory_bindings")]
AFTER = [("accounts", "0009_bindings_once")]


def migrate(targets: list[tuple[str, str]]) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate(targets)
    return MigrationExecutor(connection).loader.project_state(targets).apps


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL refused equal rows before")
def test_migration_keeps_the_oldest_of_equal_bindings_and_members() -> None:
    latest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    apps = migrate(BEFORE)
    try:
        user = apps.get_model("accounts", "User").objects.create(username="u")
        group = apps.get_model("accounts", "Group").objects.create(name="g")
        binding = apps.get_model("accounts", "RoleBinding").objects
        member = apps.get_model("accounts", "GroupMember").objects
        kept = [binding.create(user=user, role="viewer").pk, binding.create(user=user, role="x").pk]
        binding.create(user=user, role="viewer")
        members = [member.create(group=group, user=user).pk]
        member.create(group=group, user=user)
        after = migrate(AFTER)
        found = after.get_model("accounts", "RoleBinding").objects.order_by("pk")
        assert [row.pk for row in found] == kept
        rows = after.get_model("accounts", "GroupMember").objects.all()
        assert [row.pk for row in rows] == members
    finally:
        MigrationExecutor(connection).migrate(latest)
