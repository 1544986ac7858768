"""Environment of the tests, set before pytest-django imports the settings.

Every pytest process (a pytest-xdist worker is one) has its own data folder, kernel cache and
database. With BUSBAR_TEST_POSTGRESQL the database is in one PostgreSQL for all workers.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from tests.ports import WORKER

IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ

if os.environ.get("BUSBAR_TEST_POSTGRESQL") and not IS_WORKER:
    from tests.postgresql import Cluster

    os.environ["BUSBAR_DATABASE"] = Cluster().url

data = tempfile.mkdtemp(prefix="busbar-test-data-")
atexit.register(shutil.rmtree, data, ignore_errors=True)
os.environ["BUSBAR_DATA"] = data
os.environ["BUSBAR_SOFTGPU_CACHE"] = str(
    Path(tempfile.gettempdir()) / f"busbar-test-kernels-{os.getuid()}-{WORKER}"
)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
