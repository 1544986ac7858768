"""XID errors of GPUs, which the driver reports as events of NVML."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pynvml

KEPT_SECONDS = 600.0
MAX_EVENTS = 64
"""Events of one reading; the next one takes the rest."""


class XidWatch:
    """The last XID of each GPU. Used by one thread.

    The driver reports an XID once, and to each process that has registered for it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._events: dict[str, Any] = {}
        """A set for each GPU, by its UUID: waits for a set fail if one of its GPUs is lost."""
        self._seen: dict[str, tuple[int, float]] = {}
        """By the UUID of the GPU: code and time."""

    def read(self, handle: Any) -> float:
        """Return the last XID of a GPU, or 0. Does not block. Raises NVMLError without support."""
        uuid = str(pynvml.nvmlDeviceGetUUID(handle))
        if uuid not in self._events:
            self._events[uuid] = register_events(handle)
        self._take_events(uuid)
        xid, at = self._seen.get(uuid, (0, 0.0))
        return float(xid) if self._clock() - at < KEPT_SECONDS else 0.0

    def _take_events(self, uuid: str) -> None:
        for _ in range(MAX_EVENTS):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events[uuid], 0)
            except pynvml.NVMLError_Timeout:
                return
            self._seen[uuid] = int(event.eventData), self._clock()


def register_events(handle: Any) -> Any:
    """Return a new set of the XID events of a GPU. Raises NVMLError without support."""
    events = pynvml.nvmlEventSetCreate()
    try:
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    except pynvml.NVMLError:
        pynvml.nvmlEventSetFree(events)
        raise
    return events
