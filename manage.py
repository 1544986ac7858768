#!/usr/bin/env python3
"""Django's command line; `manage.py runappliance` serves everything."""

import gc
import os
import sys

from nodes.top_level import exit_status_of


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
    gc.set_threshold(50_000)  # imports leave little garbage, and looking for it takes 0.1 s
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    is_service = sys.argv[1:2] == ["runappliance"]
    sys.exit(exit_status_of("manage.py", main, is_service=is_service))
