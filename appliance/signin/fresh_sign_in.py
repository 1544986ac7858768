"""Rule that changes of how one signs in need a recent sign-in, not just a token."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from appliance.accounts.actions import raise_refusal
from appliance.accounts.models import ApiToken
from appliance.api.errors import ApplianceError, Code

FRESH = timedelta(minutes=10)


def require_fresh_sign_in(token: ApiToken | None) -> None:
    """Raise ApplianceError FRESH_SIGN_IN_REQUIRED unless the token is of a sign-in just now."""
    raise_refusal(stale_sign_in_refusal(token))


def stale_sign_in_refusal(token: ApiToken | None) -> ApplianceError | None:
    proved_at = token.signed_in_at if token is not None and token.is_sign_in else None
    if token and not token.is_limited and proved_at and timezone.now() - proved_at <= FRESH:
        return None
    return ApplianceError(
        Code.FRESH_SIGN_IN_REQUIRED,
        "Sign in again: this needs a sign-in of the last 10 minutes, with the second factor if "
        "you have one. Repeat it after `busbar login`, or in the console.",
    )
