from __future__ import annotations

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Serves console, REST, agents and the scheduler from one process."

    def handle(self, *args: object, **options: object) -> None:
        from appliance.process import run

        run()
