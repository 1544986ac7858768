"""The job of the audit: counts of refusals, seals, export and the newest hash, every second."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial

from django.db import DataError

from appliance.api import refusals
from appliance.api.refusals import Counted
from appliance.audit import chain, export
from appliance.audit.refusal_records import write_refusals
from appliance.db.writer import background_pool, run_in_thread
from appliance.runtime import background

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 1.0
RETRY_SECONDS = 30.0
"""Pause after a failed export."""
HASH_INTERVAL_SECONDS = 60.0


def write_counts() -> None:
    """Write the refusals that this process and the HTTP server have counted.

    One that the database refuses is lost, so that the others are not.
    """
    if not (counted := refusals.drain()):
        return
    try:
        write_refusals(counted)
    except (DataError, ValueError):
        write_each(counted)
    except Exception:
        refusals.add(counted)
        raise


def write_each(counted: Sequence[Counted]) -> None:
    for one in counted:
        try:
            write_refusals([one])
        except (DataError, ValueError):
            log.error("audit: a refusal cannot be stored and is lost: code=%s", one.refusal.code)


def seal_all() -> None:
    while chain.seal_batch() == chain.BATCH_RECORDS:
        pass


def export_all() -> None:
    while export.export_batch() == export.BATCH_RECORDS:
        pass


async def run_sealer() -> None:
    """Write counts of refusals and seal records every second until cancelled."""
    announced_at, announced = 0.0, 0
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        try:
            await run_in_thread(write_counts, background_pool)
        except Exception:
            log.exception("audit: writing refusals failed, retrying in %.0f s", INTERVAL_SECONDS)
            background.remember_failure(background.name_of(write_counts))
        try:
            await run_in_thread(seal_all, background_pool)
            if time.monotonic() - announced_at > HASH_INTERVAL_SECONDS:
                announced_at = time.monotonic()
                announced = await run_in_thread(
                    partial(export.announce_hash, announced), background_pool
                )
        except Exception:
            log.exception("audit: sealing failed, retrying in %.0f s", INTERVAL_SECONDS)
            background.remember_failure(background.name_of(run_sealer))


async def run_export() -> None:
    """Send sealed records to the syslog server every second until cancelled."""
    while export.is_configured():
        await asyncio.sleep(INTERVAL_SECONDS)
        try:
            await asyncio.to_thread(export_all)
        except Exception as error:
            log.error("audit: export failed, retrying in %.0f s: %s", RETRY_SECONDS, error)
            background.remember_failure(background.name_of(run_export))
            await asyncio.sleep(RETRY_SECONDS)
