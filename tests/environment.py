"""Settings for Django before it is imported, which pytest-django does before any conftest: a data folder of the tests' own, and their database."""

from __future__ import annotations

import os
import tempfile

if os.environ.get("BUSBAR_TEST_POSTGRESQL"):
    from tests.postgresql import Cluster

    os.environ["BUSBAR_DATABASE"] = Cluster().url
os.environ.setdefault("BUSBAR_DATA", tempfile.mkdtemp(prefix="busbar-test-data-"))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
