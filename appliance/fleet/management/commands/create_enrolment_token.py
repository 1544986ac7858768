from __future__ import annotations

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Prints an enrolment token: single use, 15 minutes."

    def handle(self, *args: object, **options: object) -> None:
        from appliance.fleet.enrolment import token_create

        self.stdout.write(token_create(user=None)[1])
