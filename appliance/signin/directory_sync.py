"""Comparison of all accounts of the directory with it, so that people who leave lose access."""

from __future__ import annotations

import asyncio
import logging

from django.conf import settings

from appliance.accounts.models import Source
from appliance.api.errors import ApplianceError
from appliance.db import origin
from appliance.db.origin import Origin
from appliance.db.writer import run_in_thread
from appliance.runtime import background
from appliance.signin.directory_accounts import ISSUER, follow, is_in_step, mark_missing
from appliance.signin.directory_entry import (
    DirectoryUnavailableError,
    Entry,
    UnusableEntryError,
    is_configured,
)
from appliance.signin.directory_logins import directory_pool
from appliance.signin.models import ExternalIdentity

log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0


def compare() -> None:
    """Follow every account of the directory. Blocks; the time grows with the accounts.

    While the directory does not answer, all keep their access: whether they have left is unknown.
    Raises DirectoryUnavailableError; for a single entry, after all others.
    """
    identities = list(
        ExternalIdentity.objects.select_related("user").filter(
            issuer=ISSUER, user__source=Source.LDAP
        )
    )
    if not identities:
        return
    from appliance.signin import directory  # imports ldap3

    problems: list[UnusableEntryError | ApplianceError] = []
    with directory.service_connection() as connection, origin.scope(Origin(actor="directory")):
        for identity in identities:
            try:
                compare_one(identity, directory.find_subject(connection, identity.subject))
            except (UnusableEntryError, ApplianceError) as error:
                log.error("directory: %s was not compared: %s", identity.user.username, error)
                problems.append(error)
    if problems:
        raise problems[0]


def compare_one(identity: ExternalIdentity, entry: Entry | None) -> None:
    """Follow one account; None: its person is gone. Raises ApplianceError."""
    if entry is not None:
        if not is_in_step(identity, entry):
            follow(identity, entry)
    elif identity.user.is_active:
        mark_missing(identity)
        log.info("directory: %s is gone, access ended", identity.user.username)


async def run_directory_sync() -> None:
    """Compare again and again until cancelled, if a directory is configured."""
    interval = settings.ENVIRONMENT.ldap_compare_seconds
    while is_configured():
        pause = interval
        try:
            await run_in_thread(compare, directory_pool)
        except DirectoryUnavailableError as error:
            pause = min(RETRY_SECONDS, interval)
            log.error("directory: comparison failed, retrying in %.0f s: %s", pause, error)
            background.remember_failure(background.name_of(run_directory_sync))
        except Exception:
            log.exception("directory: comparison failed, retrying in %.0f s", pause)
            background.remember_failure(background.name_of(run_directory_sync))
        await asyncio.sleep(pause)
