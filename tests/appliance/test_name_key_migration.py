"""The migration that compares names of accounts without case keeps accounts that differ by it."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from appliance.accounts.models import User
from tests.appliance.test_binding_migration import migrate


@pytest.mark.django_db(transaction=True)
def test_migration_keeps_both_of_two_accounts_with_the_same_name() -> None:
    latest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    before = migrate([("accounts", "0010_sign_in")])
    try:
        users = before.get_model("accounts", "User").objects
        for name in ("dana", "Dana", "สมชาย"):
            users.create(username=name)
    finally:
        MigrationExecutor(connection).migrate(latest)
    found = User.objects.order_by("pk").values_list("username", "name_key")
    assert list(found) == [("dana", "dana"), ("Dana", None), ("สมชาย", "สมชาย")]
