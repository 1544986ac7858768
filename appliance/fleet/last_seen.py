"""Periodic copy of the last heartbeats from memory to the database, for the next start."""

from __future__ import annotations

import time

from appliance.db.prepared import Update
from appliance.db.writer import write_transaction
from appliance.inventory.models import Node
from appliance.telemetry import reachability

SET_LAST_SEEN = Update(lambda ids, at: (Node.objects.filter(pk__in=ids), {"last_seen_at": at}))
FLUSH_SLOTS = 30


@write_transaction
def flush_last_seen() -> None:
    """Store the last heartbeat of one thirtieth of the nodes. Call once a second.

    All nodes of a call get the earliest of their times, so that one UPDATE suffices.
    """
    slot = int(time.monotonic()) % FLUSH_SLOTS
    seen = {
        node_id: at
        for node_id, at in reachability.all_last_seen().items()
        if node_id.int % FLUSH_SLOTS == slot
    }
    if seen:
        SET_LAST_SEEN(ids=list(seen), at=min(seen.values()))
