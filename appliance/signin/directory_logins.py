"""Passwords that the directory checks, on threads of its own and with a deadline.

A directory that is down or slow thus delays only the people in it.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings

from appliance.accounts.models import Source, User
from appliance.api.errors import ApplianceError, Code
from appliance.signin.directory_accounts import adopt
from appliance.signin.directory_entry import DirectoryUnavailableError, is_configured

log = logging.getLogger(__name__)

THREADS = 8
directory_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="directory")
"""Talks to the directory. A thread may wait longer than the login for which it works."""


def asks_directory(username: str) -> bool:
    """Return whether the directory checks the password of this name. Reads the database.

    Accounts of the appliance come first, so that their owners can sign in without the directory.
    """
    if not is_configured():
        return False
    return not User.objects.filter(username=username).exclude(source=Source.LDAP).exists()


def login(*, username: str, password: str) -> User:
    """Return the user with this password in the directory. Blocks for `ldap_seconds` at most.

    Raises ApplianceError UNAUTHENTICATED, DIRECTORY_UNAVAILABLE, or CONFLICT if another account
    has the name.
    """
    from appliance.signin import directory  # imports ldap3

    future = directory_pool.submit(directory.verify, username, password)
    try:
        entry = future.result(timeout=settings.ENVIRONMENT.ldap_seconds)
    except TimeoutError:
        future.cancel()
        log.error("directory: no answer within %g s", settings.ENVIRONMENT.ldap_seconds)
        raise unavailable() from None
    except DirectoryUnavailableError as error:
        log.error("directory: %s", error)
        raise unavailable() from None
    if entry is None:
        raise ApplianceError(Code.UNAUTHENTICATED, "Wrong username or password.")
    user = adopt(entry)
    if not user.is_active:
        raise ApplianceError(Code.UNAUTHENTICATED, "Wrong username or password.")
    return user


def unavailable() -> ApplianceError:
    return ApplianceError(
        Code.DIRECTORY_UNAVAILABLE,
        "The directory that checks your password does not answer; try again later.",
        retry_after_seconds=5,
    )
