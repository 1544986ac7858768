"""Pytest plugin that keeps a fixed sample of the cases of each test function.

Of a function's cases, sorted by the SHA-256 digest of their names, the first and one more for every
`SHARE` remain. The sample depends on the names of the cases only, so each run has the same one. A
software GPU would need hours for the functions in `TOO_LONG`.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

import pytest

SHARE = 40
TOO_LONG = ("test_load_store_same_ptr",)  # 67 billion threads


def digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def sample(names: Iterable[str]) -> set[str]:
    cases = defaultdict(list)
    for name in names:
        cases[name.split("[")[0]].append(name)
    return {
        name
        for function, of_function in cases.items()
        if not function.endswith(TOO_LONG)
        for name in sorted(of_function, key=digest)[: 1 + len(of_function) // SHARE]
    }


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = sample(item.nodeid for item in items)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]
