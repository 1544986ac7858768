"""Delays between failed logins, by client and by account, with a clock of the test."""

from __future__ import annotations

import pytest

from appliance.accounts import device_cookie
from appliance.accounts.login_limits import (
    ACCOUNT,
    ADDRESS,
    FORGET_SECONDS,
    MAX_HOLD_SECONDS,
    Attempt,
    LoginLimits,
)
from appliance.api.errors import ApplianceError, Code
from appliance.runtime.client_network import client_network

ADMIN, HOME, STRANGER = "admin", "192.0.2.1", "198.51.100.7"


def fail(limits: LoginLimits, address: str, account: str, now: float) -> float:
    """Charge an attempt and return the time that it waits, infinite if it is rejected."""
    try:
        return limits.charge(address, account, None, now).start_at - now
    except ApplianceError as error:
        assert error.code == Code.TOO_MANY_ATTEMPTS
        assert 1 <= float(str(error.fields["retry_after_seconds"])) <= ADDRESS.max_delay_seconds
        return float("inf")


def succeed(limits: LoginLimits, address: str, account: str, now: float) -> Attempt:
    attempt = limits.charge(address, account, None, now)
    limits.succeed(attempt, now)
    return attempt


def test_delay_grows_after_free_attempts_and_is_bounded() -> None:
    limits, now, waits = LoginLimits(), 0.0, []
    for n in range(40):
        wait = fail(limits, STRANGER, f"user{n}", now)
        if wait == float("inf"):
            now += 1
            continue
        waits.append(wait)
        now += wait
    assert waits[: ADDRESS.free] == [0.0] * ADDRESS.free and waits[ADDRESS.free] == 1.0
    assert fail(limits, STRANGER, ADMIN, now + ADDRESS.max_delay_seconds) == 0.0


def test_attempts_at_once_are_held_or_rejected_before_any_has_failed() -> None:
    limits = LoginLimits()
    waits = [fail(limits, STRANGER, ADMIN, 0.0) for _ in range(290)]
    held = [wait for wait in waits if wait <= MAX_HOLD_SECONDS]
    assert len(held) < 10 and waits[len(held) :] == [float("inf")] * (290 - len(held))


def test_failures_of_many_addresses_delay_an_account_but_not_its_known_client() -> None:
    limits = LoginLimits()
    succeed(limits, HOME, ADMIN, 0.0)
    for n in range(100):
        fail(limits, f"198.51.100.{n}", ADMIN, 1.0)
    assert fail(limits, "203.0.113.5", ADMIN, 1.0) > 0.0
    assert succeed(limits, HOME, ADMIN, 1.0).start_at == 1.0
    assert limits.charge("203.0.113.6", ADMIN, "device", 1.0).start_at == 1.0
    later = 1.0 + ACCOUNT.max_delay_seconds + MAX_HOLD_SECONDS
    assert fail(limits, "203.0.113.7", ADMIN, later) == 0.0


def test_success_at_one_account_does_not_make_the_client_known_at_another() -> None:
    limits = LoginLimits()
    succeed(limits, STRANGER, "mallory", 0.0)
    waits = [fail(limits, STRANGER, ADMIN, 1.0) for _ in range(20)]
    assert waits[ADDRESS.free] > 0.0 and waits[-1] == float("inf")


def test_own_logins_of_an_attacker_do_not_reset_the_delay_of_its_address() -> None:
    limits = LoginLimits()
    for _ in range(ADDRESS.free + 1):
        fail(limits, STRANGER, ADMIN, 0.0)
    succeed(limits, STRANGER, "mallory", 3.0)
    assert fail(limits, STRANGER, ADMIN, 3.0) + fail(limits, STRANGER, ADMIN, 3.0) > 2.0


def test_counter_starts_again_after_a_quiet_time() -> None:
    limits = LoginLimits()
    while fail(limits, STRANGER, ADMIN, 0.0) < float("inf"):
        pass
    waits = [fail(limits, STRANGER, ADMIN, FORGET_SECONDS + 1) for _ in range(ADDRESS.free)]
    assert waits == [0.0] * ADDRESS.free


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_ipv6_clients_count_by_their_network(address: str, network: str) -> None:
    assert client_network(address) == network


def test_device_cookie_is_valid_for_its_account_only() -> None:
    header = device_cookie.set_cookie_header(ADMIN).partition(";")[0]
    assert device_cookie.device_id(header, ADMIN) is not None
    assert device_cookie.device_id(header, "alice") is None
    forged = header[:-1] + ("A" if header[-1] != "A" else "B")
    assert device_cookie.device_id(forged, ADMIN) is None
    assert device_cookie.device_id("", ADMIN) is None
    assert device_cookie.device_id("a=b; __Host-busbar-device", ADMIN) is None
