from __future__ import annotations

import sys
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from appliance.backups.manifest import Manifest


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Second part of `busbar-admin restore`. Reads the manifest from standard input."

    def handle(self, *args: Any, **options: Any) -> None:
        from django.conf import settings

        from appliance.backups import postgresql_copy, resumption
        from appliance.backups.errors import BackupError
        from appliance.backups.manifest import POSTGRESQL, parse
        from appliance.runtime import restored

        try:
            manifest = parse(sys.stdin.buffer.read())
            require_known(manifest)
            if settings.ENVIRONMENT.database:
                dumped = settings.DATA_DIR / POSTGRESQL
                postgresql_copy.restore(settings.DATABASES["default"], dumped)
                dumped.unlink()
        except BackupError as error:
            raise CommandError(str(error)) from None
        for database in settings.DATABASES:
            call_command("migrate", database=database, interactive=False, verbosity=0)
        resumption.resume(backup=manifest.id, created_at=manifest.created_at)
        restored.write(settings.DATA_DIR, manifest.id, manifest.created_at)


def require_known(manifest: Manifest) -> None:
    """Raise BackupError for a database that `migrate` cannot bring to this release."""
    from django.db.migrations.loader import MigrationLoader

    from appliance.backups.errors import BackupError
    from appliance.db.pending_migrations import missing_replaced
    from nodes.version import AGENT_VERSION

    loader = MigrationLoader(None)
    replaced = (name for m in loader.replacements.values() for name in m.replaces)
    applied = {(app, name) for app, _, name in (m.partition(".") for m in manifest.migrations)}
    if unknown := sorted(applied.difference(loader.disk_migrations, replaced)):
        raise BackupError(
            f"The backup was made by a newer release ({manifest.version}): this one "
            f"({AGENT_VERSION}) does not know {'.'.join(unknown[0])}. Restore it with that release."
        )
    if missing := missing_replaced(loader, applied):
        raise BackupError(
            f"The backup was made by an unreleased version that lacks the migration {missing}. "
            "Restore it with the newest version that contains this migration, then start this one."
        )
