"""Policy of second factors: of whom one is required, and who works without one although it is.

A person without a required second factor has no privileges (`permissions.held`), whatever token
authenticates them. They can only sign in again, which sets one up.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable

from appliance.accounts.bindings import Held, held_by_user
from appliance.accounts.models import Role, User
from appliance.accounts.privileges import PRIVILEGES
from appliance.api.errors import ApplianceError, Code
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import SignInSettings

SET_UP = (
    "A second factor is required of your account. Sign in again with `busbar login` or in the "
    "console, which sets one up."
)


class Policy(enum.StrEnum):
    OFF = "off"
    """No user is asked for a second factor."""
    OPTIONAL = "optional"
    """Those who have set one up are asked."""
    PRIVILEGED = "privileged"
    """It is required of people with more privileges than the role user."""
    REQUIRED = "required"
    """It is required of all people. Service accounts do not sign in."""


def policy() -> Policy:
    return Policy(current(SignInSettings).second_factor)


def is_asked(user: User) -> bool:
    """Return whether a sign-in of the user needs a code."""
    return user.second_factor_since is not None and policy() is not Policy.OFF


def is_required(user: User) -> bool:
    """Return whether the policy requires a second factor of the user. May read the database."""
    return bool(required_of([user]))


def required_of(users: Collection[User]) -> list[User]:
    """Return the users of whom the policy requires a second factor.

    The number of queries does not depend on the users.
    """
    people = [user for user in users if not user.is_service]
    if policy() is Policy.REQUIRED:
        return people
    if policy() is not Policy.PRIVILEGED or not people:
        return []
    found = held_by_user({user.pk for user in people})
    return [user for user in people if is_privileged(found[user.pk])]


def is_privileged(held: Held) -> bool:
    """Return whether bindings grant more than the role user does, anywhere."""
    usual = PRIVILEGES[Role.USER]
    granted = [g.privileges for g in held.grants] + [g.privileges for g in held.inventory]
    return any(not privileges <= usual for privileges in granted)


def mark_lacking(users: Iterable[User]) -> None:
    """Note on these instances, which belong to requests, whether a required factor is missing."""
    users = list(users)
    for user in users:
        user.__dict__["second_factor_policy"] = policy()
    for user in required_of([u for u in users if u.second_factor_since is None]):
        user.__dict__["lacks_second_factor"] = True


def is_marked_by_present_policy(user: User) -> bool:
    """Return whether the policy is still the one of `mark_lacking`."""
    return user.__dict__.get("second_factor_policy") is policy()


def lacks_second_factor(user: User) -> bool:
    return bool(user.__dict__.get("lacks_second_factor"))


def require_second_factor(user: User) -> None:
    """Raise ApplianceError SECOND_FACTOR_SETUP_REQUIRED if a required factor is missing."""
    if lacks_second_factor(user):
        raise ApplianceError(Code.SECOND_FACTOR_SETUP_REQUIRED, SET_UP)
