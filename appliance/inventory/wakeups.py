"""Hints that a node's desired state changed. They only save time: every fleet process compares generations by itself, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

Listener = Callable[[Iterable[UUID]], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Called on the thread that committed."""
    _listeners.append(listener)


def stop_listening(listener: Listener) -> None:
    _listeners.remove(listener)


def hint(node_ids: Iterable[UUID]) -> None:
    for listener in list(_listeners):
        listener(node_ids)
