from __future__ import annotations

from logging.config import dictConfig
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from appliance.controller.process import run
from nodes import log_format


class Command(BaseCommand):
    requires_system_checks = ()  # .ci/check makes them; they take half a second
    help = "Run the appliance: controller, HTTP server and gateway."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--log-format",
            choices=log_format.FORMATS,
            help="format of log lines; by default that of BUSBAR_LOG_FORMAT, or text",
        )

    def handle(self, *args: object, **options: Any) -> None:
        log_format.choose(options["log_format"])
        dictConfig(settings.LOGGING)
        run()
