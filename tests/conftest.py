"""Settings for Django before it is imported: a data folder of the tests' own."""

from __future__ import annotations

import logging
import os
import tempfile

import pytest

os.environ.setdefault("BUSBAR_DATA", tempfile.mkdtemp(prefix="busbar-test-data-"))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")

logging.getLogger("httpx").setLevel(logging.WARNING)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The browser's driver keeps an event loop in this process to the end, in which Django refuses to work: its tests come last."""
    items.sort(key=lambda item: "console" in item.path.parts)
