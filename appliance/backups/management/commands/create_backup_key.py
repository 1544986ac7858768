from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

NOTICE = """\
The private key of backups is in {file}. The appliance has only its public part and cannot read its
own backups. Move the file to another safe place now: without it no backup can be restored.
"""


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Create a key for backups. Backups can be opened with each key that was created."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="New file for the private key.")

    def handle(self, *args: Any, **options: Any) -> None:
        from django.conf import settings
        from pyrage import x25519

        from appliance.backups.age_keys import RECIPIENTS
        from appliance.runtime.private_file import write_private

        key, file = x25519.Identity.generate(), options["file"].resolve()
        public = str(key.to_public())
        text = f"# Busbar backups; public key: {public}\n{key}\n"
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            raise CommandError(f"{file} was not created: {error.strerror}.") from None
        recipients: Path = settings.DATA_DIR / RECIPIENTS
        known = recipients.read_text() if recipients.exists() else ""
        write_private(recipients, f"{known}{public}\n".encode())
        record_key(public)
        self.stderr.write(NOTICE.format(file=file))
        self.stdout.write(public)


def record_key(public: str) -> None:
    from appliance.activity.events import emit
    from appliance.audit.records import record
    from appliance.configuration.storage import stored
    from appliance.db.writer import write_transaction

    @write_transaction
    def store() -> None:
        record(stored(), "backup_key_created", {}, {"public_key": public})
        emit(
            "backup.key_created",
            path="backups",
            actor="busbar-admin",
            message=f"Backups can be opened with the new key {public}.",
        )

    store()
