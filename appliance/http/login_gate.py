"""Login requests in the HTTP server: delays between failures, and one password check at a time.

Checking a password takes about 0.2 s of one or more processors. Known clients have a slot of their
own. Event loop only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

from appliance.accounts import device_cookie
from appliance.accounts.login_limits import Attempt, LoginLimits
from appliance.api.errors import ApplianceError, Code
from appliance.api.parsing import parse_json
from appliance.http.handler import Response, problem_of
from appliance.http.request_scope import Scope, address_of, header_of, refusal_of

MAX_WAITING = 64
"""Attempts that wait for their time or for the slot, of known and of unknown clients each."""

Forward = Callable[[Scope, bytes], Awaitable[Response | None]]


class LoginGate:
    def __init__(self) -> None:
        self._limits = LoginLimits()
        self._waiting: Counter[bool] = Counter()
        self._slots: dict[bool, asyncio.Semaphore] = {
            known: asyncio.Semaphore() for known in (False, True)
        }

    async def respond(self, scope: Scope, body: bytes, forward: Forward) -> Response | None:
        """Forward a login when its time has come. Return None if the controller is unavailable."""
        loop = asyncio.get_running_loop()
        account = username_in(body)
        device = device_cookie.device_id(header_of(scope, b"cookie") or "", account)
        try:
            attempt = self._limits.charge(address_of(scope), account, device, loop.time())
            response = await self._forward_in_turn(attempt, scope, body, forward)
        except ApplianceError as error:
            refused = [refusal_of(scope, str(error.code), account[:150])]
            return replace(problem_of(error), refusals=refused if error.status < 500 else [])
        if response is None or response.status != 200:
            return response
        self._limits.succeed(attempt, loop.time())
        return response if device is not None else with_device_cookie(response, account)

    async def _forward_in_turn(
        self, attempt: Attempt, scope: Scope, body: bytes, forward: Forward
    ) -> Response | None:
        if self._waiting[attempt.known] >= MAX_WAITING:
            raise ApplianceError(Code.BUSY, "Too many logins are pending; try again in a second.")
        self._waiting[attempt.known] += 1
        try:
            await asyncio.sleep(attempt.start_at - asyncio.get_running_loop().time())
            async with self._slots[attempt.known]:
                return await forward(scope, body)
        finally:
            self._waiting[attempt.known] -= 1


def username_in(body: bytes) -> str:
    """Return the username as LoginSerializer reads it; empty if the request is malformed."""
    try:
        username = parse_json(body)["username"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(username).strip()


def with_device_cookie(response: Response, account: str) -> Response:
    cookie = device_cookie.set_cookie_header(account).encode()
    return replace(response, headers=[*response.headers, (b"set-cookie", cookie)])
