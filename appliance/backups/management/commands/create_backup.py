from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

ACTOR = "busbar-admin"


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Make a backup of the appliance, running or not, and check it by restoring it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--to", default="", help="Folder or SFTP URL; default: the setting.")
        parser.add_argument(
            "--unrecorded",
            action="store_true",
            help="Write no rows and print the outcome as JSON, for the controller, which does.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        from appliance.backups.errors import BackupError
        from appliance.backups.services import make, record_failure, record_outcome
        from appliance.configuration import storage
        from appliance.runtime.live_settings import current
        from appliance.runtime.setting_sections import BackupSettings

        storage.load()
        try:
            outcome = make(
                to=options["to"] or current(BackupSettings).destination, report=self.report
            )
        except BackupError as error:
            if not options["unrecorded"]:
                record_failure(reason=str(error), actor=ACTOR)
            raise CommandError(str(error)) from None
        if options["unrecorded"]:
            self.stdout.write(outcome.model_dump_json())
            return
        row = record_outcome(outcome=outcome, actor=ACTOR)
        self.stdout.write(f"{row.destination.rstrip('/')}/{row.name}")
        self.stdout.write(
            f"checked: {row.rows} rows, {row.size_bytes} bytes, {row.seconds:.1f} s, "
            f"sha256 {row.sha256}"
        )

    def report(self, percent: int, message: str) -> None:
        self.stderr.write(f"{percent:3} % {message}")
