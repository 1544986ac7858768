"""Bounded mapping that drops its oldest entries, for data of strangers kept in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentEntries(Generic[K, V]):
    """Holds the `limit` entries that were stored last. Not thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def store(self, key: K, value: V) -> None:
        """Store an entry as the most recent one."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)

    def remove(self, key: K) -> None:
        self._entries.pop(key, None)
