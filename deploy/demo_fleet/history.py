"""Writes the invented past of a demo fleet to the database of a running appliance.

Usage: python -m deploy.demo_fleet.history NODES

Blocks until the appliance knows all GPUs of the simulated nodes. GPUs and projects that have a past
are left out.
"""

from __future__ import annotations

import os
import sys

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
    django.setup()
    from deploy.demo_fleet.past_rows import write_past

    write_past(int(sys.argv[1]))
