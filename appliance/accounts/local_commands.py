"""Shared parts of the commands that run on the appliance's machine."""

from __future__ import annotations

from django.core.management.base import CommandError

from appliance.accounts.models import User


def local_account(username: str) -> User:
    """Return the user with this name. Raises CommandError with the names that there are."""
    user = User.objects.filter(username=username).first()
    if user is None:
        names = ", ".join(User.objects.order_by("username").values_list("username", flat=True)[:20])
        raise CommandError(f'User "{username}" not found. Users: {names or "none yet"}.')
    return user
