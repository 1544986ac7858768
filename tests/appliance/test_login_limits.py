"""Delays between failed logins, by client and by account, with a clock of the test."""

from __future__ import annotations

import asyncio

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
from appliance.api.parsing import parse_json
from appliance.http.handler import Response, problem_of
from appliance.http.login_gate import MAX_WAITING, LoginGate
from appliance.http.request import Scope
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


def device_of(cookie: str, account: str) -> str | None:
    return device_cookie.device_id([(b"cookie", cookie.encode())], account)


def test_device_cookie_is_valid_for_its_account_only() -> None:
    header = device_cookie.set_cookie_header(ADMIN).partition(";")[0]
    assert device_of(header, ADMIN) is not None
    assert device_of(header, "alice") is None
    forged = header[:-1] + ("A" if header[-1] != "A" else "B")
    assert device_of(forged, ADMIN) is None
    assert device_of("", ADMIN) is None
    assert device_of("a=b; __Host-busbar-device", ADMIN) is None


def test_refusal_before_the_view_is_a_problem_with_its_content_type() -> None:
    response = problem_of(ApplianceError(Code.TOO_MANY_ATTEMPTS, "Wait.", retry_after_seconds=3))
    assert dict(response.headers) == {
        b"retry-after": b"3",
        b"content-type": b"application/problem+json",
    }


@pytest.mark.parametrize(("status", "is_delayed"), [(202, True), (204, False)])
def test_requests_of_codes_are_delayed_and_passwords_set_with_them_are_not(
    status: int, is_delayed: bool
) -> None:
    async def respond(scope: Scope, body: bytes) -> Response:
        return Response(status, [], b"")

    async def wait_after_attempts() -> float:
        gate, now = LoginGate(), asyncio.get_running_loop().time
        for _ in range(ADDRESS.free):
            scope: Scope = {"headers": [], "client": (STRANGER, 1)}
            await gate.respond(scope, b'{"username": "admin"}', respond)
        return fail(gate._limits, STRANGER, ADMIN, now())

    assert (asyncio.run(wait_after_attempts()) > 0) == is_delayed


def test_gate_refuses_more_waiting_attempts_with_a_text_for_logins_and_new_passwords() -> None:
    async def refused_details() -> list[str]:
        gate, is_over = LoginGate(), asyncio.Event()

        async def respond(scope: Scope, body: bytes) -> Response:
            await is_over.wait()
            return Response(200, [], b"")

        async def attempt(number: int) -> Response | None:
            scope: Scope = {
                "method": "POST",
                "path": "/api/v1/login",
                "headers": [],
                "client": (f"10.0.0.{number}", 1),
            }
            return await gate.respond(scope, b'{"username": "user%d"}' % number, respond)

        waiting = [asyncio.create_task(attempt(number)) for number in range(MAX_WAITING)]
        await asyncio.sleep(0)  # each charges its attempt and waits for the slot
        refused = await attempt(MAX_WAITING)
        is_over.set()
        responses = [refused, *await asyncio.gather(*waiting)]
        return [parse_json(r.body)["detail"] for r in responses if r and r.status != 200]

    assert asyncio.run(refused_details()) == [
        "Too many attempts are pending; try again in a second."
    ]
