"""The entry of a person in the directory. `directory` reads it.

Apart from it, so that an appliance without a directory starts without ldap3.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings


def is_configured() -> bool:
    return bool(settings.ENVIRONMENT.ldap_url)


class DirectoryUnavailableError(Exception):
    """The directory cannot be reached, or does not answer as configured."""


class UnusableEntryError(DirectoryUnavailableError):
    """The directory answered, but not with an entry of a person that can be used."""


@dataclass(frozen=True)
class Entry:
    """A person in the directory."""

    dn: str
    subject: str
    """The identifier that stays when the person gets another name."""
    username: str
    email: str
    groups: frozenset[str]
    """The mapped groups that the person is in: distinguished names as in the settings."""
