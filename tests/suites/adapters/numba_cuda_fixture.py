"""Pytest plugin for numba-cuda: the fixture of its test configuration, which wheels lack."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request: pytest.FixtureRequest) -> None:
    """Dump no text that FileCheck rejects."""
    request.cls._dump_failed_filechecks = False
