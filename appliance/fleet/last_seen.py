"""Heartbeats live in memory; the database learns of them now and then, for the next start."""

from __future__ import annotations

import time

from appliance.inventory.models import Node
from appliance.prepared import Update
from appliance.telemetry import latest
from appliance.writer import writes

SEEN = Update(lambda node_id, at: (Node.objects.filter(pk=node_id), {"last_seen_at": at}))
FLUSH_TURNS = 30


@writes
def flush_last_seen() -> None:
    """Call every second. The database learns of each node every half minute, of a few at a time."""
    turn = int(time.monotonic()) % FLUSH_TURNS
    for node_id, at in latest.all_last_seen().items():
        if node_id.int % FLUSH_TURNS == turn:
            SEEN(node_id=node_id, at=at)
