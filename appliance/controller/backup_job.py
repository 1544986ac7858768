"""The job of backups: makes one when it is due.

A process of its own copies and encrypts, so that the controller's threads and memory do not.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import datetime
from functools import partial

from django.conf import settings
from django.utils import timezone

from appliance.activity.events import SYSTEM
from appliance.backups import schedule, services
from appliance.backups.services import Outcome
from appliance.db.writer import background_pool, run_in_thread
from appliance.runtime import background

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 10.0
COMMAND = ("nice", "-n", "10", sys.executable, "manage.py", "create_backup", "--unrecorded")


async def run_backups() -> None:
    """Make backups when they are due until cancelled."""
    last_attempt: datetime | None = None
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        try:
            now = timezone.now()
            due = partial(schedule.is_due, now, last_attempt)
            if await run_in_thread(due, background_pool):
                last_attempt = now
                await make_and_record()
        except Exception:
            log.exception("backups: failed, retrying in %s", schedule.RETRY)
            background.remember_failure(background.name_of(run_backups))


async def make_and_record() -> None:
    """Make a backup in a child process, and record it or why there is none."""
    child = await asyncio.create_subprocess_exec(
        *COMMAND,
        cwd=settings.BASE_DIR,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await child.communicate()
    except asyncio.CancelledError:
        child.kill()
        raise
    if child.returncode:
        lines = errors.decode(errors="replace").strip().splitlines() or ["the process was killed"]
        reason = lines[-1].removeprefix("CommandError: ")
        log.error("backups: no backup was made: %s", reason)
        record = partial(services.record_failure, reason=reason, actor=SYSTEM)
        await run_in_thread(record, background_pool)
        return
    outcome = Outcome.model_validate_json(output.splitlines()[-1])
    log.info("backups: made and checked: %s", outcome.name)
    await run_in_thread(
        partial(services.record_outcome, outcome=outcome, actor=SYSTEM), background_pool
    )
