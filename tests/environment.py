"""Environment of the tests, set before pytest-django imports the settings.

Every pytest process (a pytest-xdist worker is one) has its own temporary folder, kernel cache,
ports and database. The folders of workers lie in that of the process that started them, which
removes all. With BUSBAR_TEST_POSTGRESQL the database is in one PostgreSQL for all workers.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
PID = os.getpid()
CHECKOUT = hashlib.sha256(str(ROOT).encode()).hexdigest()[:4]
FOLDER = Path(tempfile.gettempdir()) / (WORKER or f"bbt-{CHECKOUT}-{PID:x}")
"""The temporary folder; .ci/leftovers knows its name. The path is short, because runtime folders in
it have at most MAX_RUNTIME_BYTES of deploy/supervisor.py."""
RUN = FOLDER.parent if WORKER else FOLDER
"""The temporary folder of all workers."""
FAILED = ROOT / "build" / "log" / "failed-tests"
"""Copies of the logs in RUN, to which messages of failed tests refer."""


def make_folder() -> None:
    """Make the temporary folder; users of test programs may write in it, as in /tmp."""
    FOLDER.mkdir(exist_ok=bool(WORKER))
    FOLDER.chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = str(FOLDER)
    atexit.register(remove_folder)


def remove_folder() -> None:
    if os.getpid() == PID:  # not in a process that a test forked
        shutil.rmtree(FOLDER, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Put the folders of tests into the temporary folder; workers get theirs from pytest-xdist."""
    if config.option.basetemp is None:
        config.option.basetemp = str(FOLDER / "t")


def pytest_exception_interact() -> None:
    """Copy the logs when a test failed, before its fixtures remove them."""
    for folder, _, names in os.walk(RUN):
        target = FAILED / Path(folder).relative_to(RUN)
        for name in (n for n in names if n.endswith(".log")):
            with suppress(OSError):  # another worker may remove it now
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(folder) / name, target / name)


make_folder()
data = FOLDER / "data"
data.mkdir(mode=0o700)
os.environ["BUSBAR_DATA"] = str(data)
os.environ["BUSBAR_SOFTGPU_CACHE"] = str(ROOT / "build" / "test-kernels")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
os.environ.pop("BUSBAR_TEST_PORTS", None)  # of the process that started this one

if not WORKER and "BUSBAR_TEST_RESULTS" not in os.environ:  # .ci/run has several runs
    shutil.rmtree(FAILED, ignore_errors=True)
if os.environ.get("BUSBAR_TEST_POSTGRESQL") and not WORKER:
    from tests.postgresql import Cluster

    os.environ["BUSBAR_DATABASE"] = Cluster().url
