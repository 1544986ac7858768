from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Remove the second factor of a user who has lost it. The sign-ins of the user end."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", nargs="?", default="admin", help="Username; default: admin.")

    def handle(self, *args: Any, **options: Any) -> None:
        from appliance.accounts.local_commands import local_account
        from appliance.signin.second_factors import reset_on_machine

        user = local_account(options["user"])
        reset_on_machine(user=user)
        self.stdout.write(f"{user.username} has no second factor.")
