"""What holds for all tests; their environment is set by environment.py."""

from __future__ import annotations

import logging

import pytest

logging.getLogger("httpx").setLevel(logging.WARNING)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The browser's driver keeps an event loop in this process to the end, in which Django refuses to work: its tests come last."""
    items.sort(key=lambda item: "console" in item.path.parts)
