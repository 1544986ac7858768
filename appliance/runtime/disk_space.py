"""Free space of the data folder."""

from __future__ import annotations

import enum
import os

from django.conf import settings
from django.db import OperationalError

from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import ApplianceSettings

MIB = 1 << 20
RECOVERY_FACTOR = 1.25
"""The space is sufficient again when it exceeds the lower bound by this factor."""
MESSAGES = ("disk is full", "No space left on device")
"""Parts of the errors of SQLite and PostgreSQL."""


class Level(enum.IntEnum):
    OK = 0
    LOW = 1
    FULL = 2
    """No grants, so that releases and the end of sessions can still be stored."""


def free_mib() -> float:
    """Return the space that the appliance's user may still use."""
    s = os.statvfs(settings.DATA_DIR)
    return s.f_bavail * s.f_frsize / MIB


def level() -> Level:
    free, limits = free_mib(), current(ApplianceSettings)
    if free < limits.disk_full_mib:
        return Level.FULL
    return Level.LOW if free < limits.disk_low_mib else Level.OK


def refuses_grants() -> bool:
    """Return whether the disk of the database is full. PostgreSQL has a disk of its own."""
    return not settings.ENVIRONMENT.database and level() == Level.FULL


def has_recovered() -> bool:
    return free_mib() > RECOVERY_FACTOR * current(ApplianceSettings).disk_low_mib


def is_disk_full(error: BaseException) -> bool:
    """Return whether a change failed because the disk of the database is full."""
    return isinstance(error, OperationalError) and any(m in str(error) for m in MESSAGES)
