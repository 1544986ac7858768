"""Garbage collection policy of the controller and HTTP server processes.

Automatic full collections pause a process for 0.2-0.4 s, several times a minute, with the series
and capacities of 8,000 GPUs in memory. Almost all of these objects are long-lived. They are
frozen every minute; a full collection runs once an hour.
"""

from __future__ import annotations

import asyncio
import gc

FREEZE_INTERVAL_SECONDS = 60.0
FULL_COLLECTION_INTERVAL_MINUTES = 60
GENERATION_THRESHOLDS = (20_000, 20, 1_000_000)
"""See gc.set_threshold(). The last one disables automatic full collections."""


def start_collection_policy() -> None:
    """Set the thresholds and freeze the objects of the start-up. Call once, after imports."""
    gc.set_threshold(*GENERATION_THRESHOLDS)
    gc.collect()
    gc.freeze()


def freeze_survivors(full_collection: bool) -> None:
    """Exempt all current objects from collection, after a full collection if requested."""
    if full_collection:
        gc.unfreeze()
        gc.collect()
    gc.freeze()


async def run_collection_policy() -> None:
    """Freeze surviving objects periodically until cancelled."""
    minute = 0
    while True:
        await asyncio.sleep(FREEZE_INTERVAL_SECONDS)
        minute += 1
        freeze_survivors(full_collection=minute % FULL_COLLECTION_INTERVAL_MINUTES == 0)
