"""Sign-in without a password: shows a code that the user approves in the console."""

from __future__ import annotations

import platform
import time
from datetime import datetime, timezone
from typing import Any

import typer

from remoting.cli import api as rest

WAITING = frozenset({"device_login_pending", "too_many_attempts"})


def sign_in_by_code(anonymous: rest.Api, url: str) -> dict[str, Any]:
    """Show a code and block until a user has approved it. Returns the response with the token.

    Raises ApiError if the sign-in is denied or has ended.
    """
    begun = anonymous.request("POST", "device-logins", {"client": platform.node()[:100]})
    typer.echo(
        f"Open {url}{begun['approval_path']} in a browser where you are signed in, and type:\n\n"
        f"    {begun['code']}\n\n"
        "Waiting for the approval, at most 10 minutes."
    )
    end = datetime.fromisoformat(begun["expires_at"].replace("Z", "+00:00"))
    while True:
        time.sleep(begun["interval_seconds"])
        try:
            return anonymous.request(
                "POST", "device-logins/token", {"device_code": begun["device_code"]}
            )
        except rest.ApplianceUnreachable:
            if datetime.now(timezone.utc) > end:
                raise
        except rest.ApiError as error:
            if error.code not in WAITING:
                raise
