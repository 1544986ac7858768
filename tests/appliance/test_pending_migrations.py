"""Databases of unreleased versions, whose migrations are replaced by a few squashed ones."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from appliance.backups.errors import BackupError
from appliance.backups.management.commands.finish_restore import require_known
from appliance.backups.manifest import Manifest
from appliance.db.pending_migrations import lacks_migrations
from appliance.inventory.models import Site

pytestmark = pytest.mark.django_db


def applied() -> set[tuple[str, str]]:
    return set(MigrationRecorder(connection).applied_migrations())


def forget_squashed() -> None:
    """Leave only the migrations recorded that a version before the squashed ones applied."""
    recorder = MigrationRecorder(connection)
    for app, name in MigrationLoader(None).replacements:
        recorder.record_unapplied(app, name)


def manifest(migrations: set[tuple[str, str]]) -> Manifest:
    return Manifest.model_construct(version="0.1.0", migrations=tuple(map(".".join, migrations)))


def test_database_with_all_replaced_migrations_keeps_its_tables_and_rows() -> None:
    before = applied()
    forget_squashed()
    Site.objects.create(name="kept")
    assert lacks_migrations("default")
    call_command("migrate", interactive=False, verbosity=0)
    assert applied() == before
    assert not lacks_migrations("default")
    assert Site.objects.filter(name="kept").exists()


@pytest.mark.parametrize(
    "missing",
    ["accounts.0011_name_key", "accounts.0012_idempotency_key", "inventory.0019_gpu_context_bytes"],
)
def test_database_with_some_replaced_migrations_is_refused(missing: str) -> None:
    app, _, name = missing.partition(".")
    forget_squashed()
    MigrationRecorder(connection).record_unapplied(app, name)
    with pytest.raises(SystemExit, match=f"lacks the migration {missing}. Start it once with"):
        lacks_migrations("default")
    with pytest.raises(BackupError, match=f"lacks the migration {missing}. Restore it with"):
        require_known(manifest(applied()))


def test_backup_with_all_replaced_migrations_is_restored() -> None:
    forget_squashed()
    require_known(manifest(applied()))


def test_backup_with_an_unknown_migration_is_refused() -> None:
    newer = applied() | {("inventory", "0099_newer")}
    with pytest.raises(BackupError, match=r"does not know inventory\.0099_newer"):
        require_known(manifest(newer))
