"""A descriptor that tells of pending signals, for `select`; Python has no function for it."""

from __future__ import annotations

import ctypes
import os
import signal


def signal_descriptor(numbers: set[signal.Signals]) -> int:
    """Return a descriptor that is readable while a signal is pending (signalfd(2)).

    It is not read. `sigtimedwait` would wake us up as well, but it takes the signal.
    """
    bits = sum(1 << (number - 1) for number in numbers)
    mask = (ctypes.c_uint64 * 16)(bits)  # sigset_t has 128 bytes
    descriptor: int = ctypes.CDLL(None).signalfd(-1, mask, os.O_CLOEXEC)
    return descriptor
