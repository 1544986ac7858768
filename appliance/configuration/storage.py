"""Loading of the stored settings into memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr, ValidationError

from appliance.configuration.models import ROW_ID, StoredSettings
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.runtime import background, live_settings
from appliance.runtime.live_settings import SECTIONS, Section
from appliance.runtime.sealing import Purpose, UnreadableSecretError, seal, unseal

log = logging.getLogger(__name__)

RELOAD_SECONDS = 5.0
"""Another process (`manage.py`, another appliance) may change settings, too."""


def stored() -> StoredSettings:
    """Return the row, or one with defaults that is not saved. Reads the database."""
    return StoredSettings.objects.filter(pk=ROW_ID).first() or StoredSettings()


def load() -> None:
    """Put the stored settings in force in this process. Reads the database."""
    row = stored()
    live_settings.replace(
        {
            section: build(section, row.values.get(name, {}), row.secrets.get(name, {}))
            for name, section in SECTIONS.items()
        }
    )


def build(section: type[Section], values: Mapping[str, Any], secrets: Mapping[str, str]) -> Section:
    """Return a section of stored values. Those that are no longer permitted get defaults."""
    known = {name: value for name, value in values.items() if name in section.model_fields}
    for name, sealed in secrets.items():
        if name in section.model_fields and (text := open_secret(section, name, sealed)):
            known[name] = SecretStr(text)
    try:
        return section(**known)
    except ValidationError as error:
        wrong = {str(e["loc"][0]) for e in error.errors() if e["loc"]}
        log.error("settings: %s.%s: stored value ignored", section.section, ", ".join(wrong))
        kept = {name: value for name, value in known.items() if name not in wrong}
        return build(section, kept, {}) if wrong else section()


def seal_secret(section: type[Section], name: str, text: str) -> str:
    return seal(text.encode(), Purpose.SETTING, f"{section.section}.{name}".encode())


def open_secret(section: type[Section], name: str, sealed: str) -> str:
    """Return a stored secret, or an empty text if another secret key sealed it."""
    try:
        return unseal(sealed, Purpose.SETTING, f"{section.section}.{name}".encode()).decode()
    except UnreadableSecretError:
        return ""


_changed = threading.Event()


def follow_changes() -> None:
    """Load the settings, and again after each change, on a thread of their own."""
    load()
    change_log.subscribe(lambda change: _changed.set(), Topic.SETTINGS)
    background.thread_of("settings", _follow).start()


def _follow() -> None:
    while True:
        _changed.wait(RELOAD_SECONDS)
        _changed.clear()
        try:
            load()
        except Exception:
            log.exception("settings: loading failed, retrying in %.0f s", RELOAD_SECONDS)


# The transaction of the change reads them at once, and again if it is rolled back.
change_log.subscribe_pending(lambda change: load(), Topic.SETTINGS)
