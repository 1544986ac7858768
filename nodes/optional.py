"""What NVML may not know of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

R = TypeVar("R")


def optional(read: Callable[[], R]) -> R | None:
    """A reading that this GPU, or this driver, may not have."""
    try:
        return read()
    except pynvml.NVMLError:
        return None


def text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
