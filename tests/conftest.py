"""Settings for Django before it is imported: a data folder of the tests' own."""

from __future__ import annotations

import logging
import os
import tempfile

os.environ.setdefault("BUSBAR_DATA", tempfile.mkdtemp(prefix="busbar-test-data-"))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")

logging.getLogger("httpx").setLevel(logging.WARNING)
