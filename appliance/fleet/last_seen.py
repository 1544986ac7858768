"""Heartbeats live in memory; the database learns of them now and then, for the next start."""

from __future__ import annotations

import time

from appliance.inventory.models import Node
from appliance.prepared import Update
from appliance.telemetry import latest
from appliance.writer import writes

SEEN = Update(lambda ids, at: (Node.objects.filter(pk__in=ids), {"last_seen_at": at}))
FLUSH_TURNS = 30


@writes
def flush_last_seen() -> None:
    """Call every second. The database learns of each node every half minute, of a few at a time: that it was heard then or later."""
    turn = int(time.monotonic()) % FLUSH_TURNS
    seen = {
        node_id: at
        for node_id, at in latest.all_last_seen().items()
        if node_id.int % FLUSH_TURNS == turn
    }
    if seen:
        SEEN(ids=list(seen), at=min(seen.values()))
