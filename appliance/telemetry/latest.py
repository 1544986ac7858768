"""The newest word of each node, in memory: heartbeats come too often for the database."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.utils import timezone


@dataclass
class NodeNews:
    monotonic: float = 0.0
    seen_at: datetime | None = None


_nodes: dict[UUID, NodeNews] = {}
_lock = threading.Lock()


def heard_from(node_id: UUID) -> None:
    with _lock:
        news = _nodes.setdefault(node_id, NodeNews())
        news.monotonic, news.seen_at = time.monotonic(), timezone.now()


def forget(node_id: UUID) -> None:
    with _lock:
        _nodes.pop(node_id, None)


def reachable(node_id: UUID) -> bool:
    with _lock:
        news = _nodes.get(node_id)
    return news is not None and time.monotonic() - news.monotonic < settings.ENVIRONMENT.unreachable_seconds


def unreachable(node_ids: Iterable[UUID]) -> set[UUID]:
    """Those of them that are not."""
    oldest = time.monotonic() - settings.ENVIRONMENT.unreachable_seconds
    with _lock:
        heard = {n for n, news in _nodes.items() if news.monotonic > oldest}
    return set(node_ids) - heard


def last_seen(node_id: UUID) -> datetime | None:
    with _lock:
        news = _nodes.get(node_id)
    return news.seen_at if news else None


def all_last_seen() -> dict[UUID, datetime]:
    with _lock:
        return {node_id: n.seen_at for node_id, n in _nodes.items() if n.seen_at}
