from __future__ import annotations

from django.core.management.base import BaseCommand

from appliance.controller.process import run


class Command(BaseCommand):
    help = "Run the appliance: controller, HTTP server and gateway."

    def handle(self, *args: object, **options: object) -> None:
        run()
