from __future__ import annotations

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Create an enrolment token for one use within 15 minutes and print it."

    def handle(self, *args: object, **options: object) -> None:
        from appliance.fleet.enrolment import token_create

        self.stdout.write(token_create(user=None)[1])
