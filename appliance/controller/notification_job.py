"""The job of the notifications: finds what to tell users, and sends it, every few seconds.

Codes for new passwords are sent by it, too.
"""

from __future__ import annotations

import asyncio
import logging

from appliance.db.writer import background_pool, run_in_thread
from appliance.notifications import collection, delivery
from appliance.signin import password_resets

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 3.0
RETRY_SECONDS = 30.0


async def run_notifications() -> None:
    """Collect and send mails until cancelled. A slow mail server delays only other mails."""
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        try:
            while await run_in_thread(collection.collect, background_pool) == collection.MAX_EVENTS:
                pass
            await asyncio.to_thread(password_resets.send_waiting)
            await asyncio.to_thread(delivery.deliver)
        except Exception:
            log.exception("notifications: failed, retrying in %.0f s", RETRY_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)
