"""The job of the notifications: finds what to tell users, and sends it, every few seconds.

Codes for new passwords are sent by it, too.
"""

from __future__ import annotations

import asyncio
import logging

from appliance.db.writer import background_pool, run_in_thread
from appliance.notifications import collection, delivery
from appliance.runtime import background
from appliance.signin import password_resets

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 3.0
RETRY_SECONDS = 30.0


async def run_notifications() -> None:
    """Collect and send mails until cancelled. A slow mail server delays only other mails."""
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        if not await run_steps():
            await asyncio.sleep(RETRY_SECONDS)


async def run_steps() -> bool:
    """Run each step once. One that fails leaves the others alone. Return whether all succeeded."""
    succeeded = True
    for step in (collect_all, send_codes, send_mails):
        try:
            await step()
        except Exception:
            succeeded = False
            log.exception(
                "notifications: %s failed, retrying in %.0f s", step.__name__, RETRY_SECONDS
            )
            background.remember_failure(background.name_of(step))
    return succeeded


async def collect_all() -> None:
    while await run_in_thread(collection.collect, background_pool) == collection.MAX_EVENTS:
        pass


async def send_codes() -> None:
    await asyncio.to_thread(password_resets.send_waiting)


async def send_mails() -> None:
    await asyncio.to_thread(delivery.deliver)
