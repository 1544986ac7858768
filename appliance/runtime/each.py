"""Work on many items of which a bad one must not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger(__name__)

MAX_KNOWN = 1000
_failures: dict[tuple[str, str], str] = {}
"""The last error by work and item. Periodic work logs an error once, not in each period."""


def log_failure(what: str, item: object, error: Exception) -> None:
    """Log the error of an item with its name, unless it equals the last one. Thread-safe."""
    key, text = (what, str(item)), repr(error)
    if _failures.get(key) == text:
        return
    if len(_failures) >= MAX_KNOWN:
        _failures.clear()
    _failures[key] = text
    log.error("%s failed, the others go on: %s", what, item, exc_info=error)


def forget_failure(what: str, name: Callable[[T], Any], item: T) -> None:
    if _failures:
        _failures.pop((what, str(name(item))), None)


def run_each(
    what: str,
    items: Iterable[T],
    work: Callable[[T], object],
    name: Callable[[T], Any] = str,
    propagates: tuple[type[Exception], ...] = (),
) -> list[T]:
    """Run work for each item. The error of one is logged with `what` and the item's name.

    Return the items that failed.
    """
    failed: list[T] = []
    for item in items:
        try:
            work(item)
        except propagates:
            raise
        except Exception as error:
            log_failure(what, name(item), error)
            failed.append(item)
        else:
            forget_failure(what, name, item)
    return failed


def convert_each(
    what: str, items: Iterable[T], convert: Callable[[T], R], name: Callable[[T], Any] = str
) -> tuple[list[R], list[T]]:
    """Return the conversions, and the items whose conversion failed, which is logged."""
    converted: list[R] = []
    failed = run_each(what, items, lambda item: converted.append(convert(item)), name)
    return converted, failed
