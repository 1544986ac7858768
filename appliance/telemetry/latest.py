"""The newest word of each node, in memory: heartbeats come too often for the database."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from appliance.told import in_web_too

environment = settings.ENVIRONMENT
"""Each look through Django's settings takes 4 us."""


@dataclass
class NodeNews:
    monotonic: float = 0.0
    seen_at: datetime | None = None


_nodes: dict[UUID, NodeNews] = {}
_lock = threading.Lock()


returns = 0
"""How often a node became reachable, or was forgotten."""


def heard_from(node_id: UUID) -> None:
    global returns
    with _lock:
        news, now = _nodes.setdefault(node_id, NodeNews()), time.monotonic()
        if now - news.monotonic >= environment.unreachable_seconds:
            returns += 1
        news.monotonic, news.seen_at = now, timezone.now()


@in_web_too
def heard_of(node_id: UUID) -> None:
    """When the web's process does not hear it by itself."""
    heard_from(node_id)


@in_web_too
def forget(node_id: UUID) -> None:
    global returns
    with _lock:
        returns += 1
        _nodes.pop(node_id, None)


def reachable(node_id: UUID) -> bool:
    with _lock:
        news = _nodes.get(node_id)
    return news is not None and time.monotonic() - news.monotonic < environment.unreachable_seconds


def unreachable(node_ids: Iterable[UUID]) -> set[UUID]:
    """Those of them that are not."""
    return unreachable_until(node_ids)[0]


def unreachable_until(node_ids: Iterable[UUID]) -> tuple[set[UUID], float]:
    """Those of them that are not, and the moment (monotonic) until which no other falls silent; `returns` tells of those that come back."""
    patience = environment.unreachable_seconds
    oldest = time.monotonic() - patience
    with _lock:
        heard = {n: news.monotonic for n, news in _nodes.items() if news.monotonic > oldest}
    return set(node_ids) - heard.keys(), min(heard.values(), default=math.inf) + patience


def last_seen(node_id: UUID) -> datetime | None:
    with _lock:
        news = _nodes.get(node_id)
    return news.seen_at if news else None


def all_last_seen() -> dict[UUID, datetime]:
    with _lock:
        return {node_id: n.seen_at for node_id, n in _nodes.items() if n.seen_at}
