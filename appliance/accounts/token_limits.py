"""Scopes, networks and end of a new API token: never more than those of the token that makes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.utils import timezone

from appliance.accounts.models import ApiToken
from appliance.accounts.privileges import ADMINISTER, PRIVILEGES
from appliance.accounts.token_networks import covers
from appliance.api.errors import ApplianceError, Code

DEFAULT_LIFETIME = timedelta(days=90)
SCOPE_NAMES = sorted(ADMINISTER | PRIVILEGES.keys())
"""Privileges, and built-in roles as a short form of their privileges."""


class TokenLimits(NamedTuple):
    scopes: list[str]
    networks: list[str]
    expires_at: datetime


def expand_scopes(names: Iterable[str]) -> list[str]:
    """Replace names of built-in roles by their privileges of today."""
    return sorted(set[str]().union(*(PRIVILEGES.get(name, {name}) for name in names)))


def limits_of(
    *,
    scopes: Iterable[str] | None,
    networks: Sequence[str] | None,
    lifetime: timedelta | None,
    made_with: ApiToken | None,
) -> TokenLimits:
    """Return the limits of a new token. None stands for those of the token that makes it.

    Raises ApplianceError DENIED if they exceed those of the token that makes it, unless that is
    the token of a sign-in.
    """
    end = timezone.now() + (lifetime or DEFAULT_LIFETIME)
    if made_with is None or made_with.is_sign_in:
        return TokenLimits(expand_scopes(scopes or ()), list(networks or ()), end)
    latest = made_with.expires_at or end
    wanted = TokenLimits(
        made_with.scopes if scopes is None else expand_scopes(scopes),
        made_with.networks if networks is None else list(networks),
        end if lifetime else min(end, latest),
    )
    require_within(wanted, made_with, latest)
    return wanted


def require_within(wanted: TokenLimits, made_with: ApiToken, latest: datetime) -> None:
    own = frozenset(made_with.scopes)
    if own and (not wanted.scopes or not own.issuperset(wanted.scopes)):
        lacking = sorted(set(wanted.scopes) - own)
        raise exceeded("scopes", ", ".join(lacking) or "all, because the list is empty")
    if made_with.networks and (
        not wanted.networks or not covers(made_with.networks, wanted.networks)
    ):
        raise exceeded("networks", ", ".join(wanted.networks) or "all, because the list is empty")
    if wanted.expires_at > latest:
        raise exceeded("lifetime_seconds", f"{wanted.expires_at:%Y-%m-%dT%H:%MZ}")


def exceeded(field: str, value: str) -> ApplianceError:
    return ApplianceError(
        Code.DENIED,
        f"{field}: a token creates no token that permits more than itself ({value}). "
        "Create the token after a sign-in with the password.",
    )
