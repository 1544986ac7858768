"""The jobs of the alarms: evaluation of the definitions, and the actions that are due."""

from __future__ import annotations

import asyncio
import logging

from appliance.alarms import delivery
from appliance.alarms.evaluator import Evaluator
from appliance.db.writer import background_pool, run_in_thread
from appliance.runtime import background
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import AlarmSettings

log = logging.getLogger(__name__)

ACTION_INTERVAL_SECONDS = 2.0
RETRY_SECONDS = 30.0


async def run_alarms() -> None:
    """Evaluate all definitions in the interval of the settings until cancelled."""
    evaluator = Evaluator()
    while True:
        await asyncio.sleep(current(AlarmSettings).interval_seconds)
        try:
            await run_in_thread(evaluator.evaluate, background_pool)
        except Exception:
            log.exception("alarms: evaluation failed, retrying")
            background.remember_failure(background.name_of(run_alarms))


async def run_alarm_actions() -> None:
    """Do actions until cancelled. A slow server or script delays only other actions."""
    while True:
        await asyncio.sleep(ACTION_INTERVAL_SECONDS)
        try:
            while await asyncio.to_thread(delivery.deliver) == delivery.BATCH:
                pass
        except Exception:
            log.exception("alarms: actions failed, retrying in %.0f s", RETRY_SECONDS)
            background.remember_failure(background.name_of(run_alarm_actions))
            await asyncio.sleep(RETRY_SECONDS)
