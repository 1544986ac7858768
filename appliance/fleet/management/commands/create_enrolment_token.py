from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Create enrolment tokens for one use each within 15 minutes and print them, one a line."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--count", type=int, default=1, help="Number of tokens.")
        parser.add_argument(
            "--simulated",
            action="store_true",
            help="The nodes are simulated: their GPUs join simulated pools only.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        from appliance.fleet.enrolment import token_create

        for _ in range(options["count"]):
            token = token_create(user=None, simulated=options["simulated"])[1]
            self.stdout.write(token)
