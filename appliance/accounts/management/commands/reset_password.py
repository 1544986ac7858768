from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Set a new one-time password for a user and print it. The tokens of the user end."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", nargs="?", default="admin", help="Username; default: admin.")

    def handle(self, *args: Any, **options: Any) -> None:
        from appliance.accounts.local_commands import local_account
        from appliance.accounts.services import set_one_time_password
        from appliance.configuration import storage

        storage.load()  # the account gets a mail if a mail service is set up
        user = local_account(options["user"])
        if user.is_service or user.source:
            raise CommandError(f"{user.username} has no password on this appliance.")
        self.stdout.write(set_one_time_password(user=user))
        if not user.is_active:
            self.stderr.write(
                f"{user.username} is inactive. Another administrator activates the account: "
                f"busbar user set {user.username} --active"
            )
