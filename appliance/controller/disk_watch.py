"""Events about the free space of the data folder."""

from __future__ import annotations

import asyncio
import logging

from appliance.activity.events import emit
from appliance.db.writer import background_pool, run_in_thread, write_transaction
from appliance.runtime import disk_space
from appliance.runtime.disk_space import Level
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import ApplianceSettings

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 1.0
ADVICE = "free space, or lower `retention` in the settings"
MESSAGES = {
    Level.LOW: f"The disk of the data folder has less than {{low}} MiB left; {ADVICE}.",
    Level.FULL: f"The disk of the data folder has less than {{full}} MiB left; no allocation is "
    f"granted until it has more. Running programs and releases go on; {ADVICE}.",
    Level.OK: "The disk of the data folder has enough space again.",
}


class DiskWatch:
    """Emits one event when the space becomes low, one when it is full, and one when it is back."""

    def __init__(self) -> None:
        self._announced = Level.OK

    def check(self) -> None:
        """Compare the space with the limits. Raises if the event cannot be stored; call again."""
        level = disk_space.level()
        if level > self._announced:
            self._announce(level)
        elif self._announced != Level.OK and disk_space.has_recovered():
            self._announce(Level.OK)

    def _announce(self, level: Level) -> None:
        limits = current(ApplianceSettings)
        message = MESSAGES[level].format(low=limits.disk_low_mib, full=limits.disk_full_mib)
        emit_level(level, message)
        self._announced = level
        log.log(logging.INFO if level == Level.OK else logging.WARNING, "disk: %s", message)


@write_transaction
def emit_level(level: Level, message: str) -> None:
    emit(
        f"appliance.disk_{level.name.lower()}",
        path="appliance",
        message=message,
        free_mib=round(disk_space.free_mib()),
    )


async def watch_disk() -> None:
    """Check the space every second until cancelled."""
    watch = DiskWatch()
    while True:
        try:
            await run_in_thread(watch.check, background_pool)
        except Exception as error:
            log.error("disk: the event could not be stored, retrying: %s", error)
        await asyncio.sleep(INTERVAL_SECONDS)
