"""Limit of who changes the mail server, through which codes for forgotten passwords are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.accounts.bindings import Grant
from appliance.accounts.delegation import first_missing
from appliance.accounts.models import User
from appliance.accounts.privileges import ADMINISTER
from appliance.api.errors import ApplianceError, Code
from appliance.configuration.services import effective
from appliance.runtime.setting_sections import MailSettings

SERVER = ("host", "port", "security", "ca_certificates")
"""Settings that decide who can read the mails."""


def require_all_privileges(
    actor: User, before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """Raise ApplianceError DENIED for another server if the actor lacks a privilege.

    The operator of the server can set the password of each person with an address, administrators
    among them.
    """
    before, after = (
        {name: effective(MailSettings, values, name) for name in SERVER}
        for values in (before, after)
    )
    if before != after and first_missing(actor, [Grant(frozenset(ADMINISTER), None)]):
        raise ApplianceError(
            Code.DENIED,
            f"Another mail server ({', '.join(SERVER)}) needs all privileges on the whole "
            "appliance: the codes for forgotten passwords are sent through it.",
        )
