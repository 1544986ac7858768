"""Access to NVML values that a GPU or driver may not support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

R = TypeVar("R")


def read_optional(read: Callable[..., R], *arguments: Any) -> R | None:
    """Return `read(*arguments)`, or None if NVML reports an error or a text that is none."""
    try:
        return read(*arguments)
    except (pynvml.NVMLError, UnicodeDecodeError):
        return None


def decode_text(value: Any) -> str:
    """Return a string of NVML, which is bytes in older versions of pynvml."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def pci_bus_id(handle: Any) -> str:
    """Return the PCI bus id of a device. Raises NVMLError."""
    return decode_text(pynvml.nvmlDeviceGetPciInfo(handle).busId)
