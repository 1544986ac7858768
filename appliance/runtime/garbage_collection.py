"""Garbage collection policy of the controller and HTTP server processes.

Automatic full collections pause a process for 0.2-0.4 s, several times a minute, with the series
and capacities of 8,000 GPUs in memory. Almost all of these objects are long-lived. They are
frozen every minute; a full collection runs once an hour.

Each request leaves some hundred objects in cycles. A collection of 20,000 young objects stopped
the process for 10 to 40 ms about once a second beside 60 requests per second; four smaller ones
take as long together, and stop it for a quarter of that time each.
"""

from __future__ import annotations

import asyncio
import gc

FREEZE_INTERVAL_SECONDS = 60.0
FULL_COLLECTION_INTERVAL_MINUTES = 60
GENERATION_THRESHOLDS = (5_000, 80, 1_000_000)
"""See gc.set_threshold(). The last one disables automatic full collections."""
YOUNG, FULL = 1, 2
"""Generations, see gc.collect()."""


def start_collection_policy() -> None:
    """Set the thresholds and freeze the objects of the start-up. Call once, after imports.

    These leave some hundred objects in cycles: no reason for a collection, which takes 60 ms.
    """
    gc.set_threshold(*GENERATION_THRESHOLDS)
    gc.freeze()


def freeze_survivors(full_collection: bool) -> None:
    """Exempt all current objects from collection, after a full collection if requested.

    Otherwise only the young objects are collected before: garbage that is frozen stays for an hour.
    """
    if full_collection:
        gc.unfreeze()
    gc.collect(FULL if full_collection else YOUNG)
    gc.freeze()


async def run_collection_policy() -> None:
    """Freeze surviving objects periodically until cancelled."""
    minute = 0
    while True:
        await asyncio.sleep(FREEZE_INTERVAL_SECONDS)
        minute += 1
        freeze_survivors(full_collection=minute % FULL_COLLECTION_INTERVAL_MINUTES == 0)
