"""Selection and order of the tests; environment.py sets their environment."""

from __future__ import annotations

import logging

import pytest

logging.getLogger("httpx").setLevel(logging.WARNING)

ORDER = ("system", "fleet", "ansible", "remoting", "softgpu", "appliance", "console")
"""Folders with long files come first, so that two workers end at the same time.

The console is last: Playwright keeps an event loop in the process until the end, and Django refuses
to work inside one.
"""


def position(item: pytest.Item) -> int:
    """Return the place of an item's folder in ORDER; other folders come before the console."""
    folders = [folder for folder in ORDER if folder in item.path.parts]
    return ORDER.index(folders[0]) if folders else len(ORDER) - 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=position)
