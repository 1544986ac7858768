"""Login requests in the HTTP server: delays between failures, and one password check at a time.

Checking a password takes about 0.2 s of one or more processors. Known clients have a slot of their
own. Passwords that the directory checks have other slots, and other threads in the controller, so a
slow directory delays no other login. Event loop only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from appliance.accounts import device_cookie
from appliance.accounts.login_limits import Attempt, LoginLimits
from appliance.api.errors import ApplianceError, Code
from appliance.api.parsing import parse_json
from appliance.api.refusals import account_text
from appliance.db.writer import anonymous_pool, run_in_thread
from appliance.http.handler import Response, problem_of
from appliance.http.request import Execution, Scope, address_of, refusal_of
from appliance.signin import directory_logins
from appliance.signin.directory_entry import is_configured

MAX_WAITING = 64
"""Attempts that wait for their time or for the slot, of known and of unknown clients each."""

DIRECTORY_SLOTS = 4
"""Logins that wait for the directory, of known and of unknown clients each."""
Slot = tuple[bool, bool]
"""Key of a slot: the client is known; the directory checks the password."""

PASSWORD_ACCEPTED = frozenset(
    {
        Code.PASSWORD_CHANGE_REQUIRED,
        Code.SECOND_FACTOR_REQUIRED,
        Code.SECOND_FACTOR_SETUP_REQUIRED,
    }
)
"""Problems of logins whose password was right. Wrong codes have delays of their own."""
NEW_PASSWORD = 204
"""Status of a new password that was set with the code of a mail. A request of a code, which anybody
can make, has another one and stays charged."""

Forward = Callable[[Scope, bytes], Awaitable[Response | None]]


class LoginGate:
    def __init__(self) -> None:
        self._limits = LoginLimits()
        self._waiting: Counter[Slot] = Counter()
        self._slots: dict[Slot, asyncio.Semaphore] = {
            (known, asks): asyncio.Semaphore(DIRECTORY_SLOTS if asks else 1)
            for known in (False, True)
            for asks in (False, True)
        }

    async def respond(self, scope: Scope, body: bytes, forward: Forward) -> Response | None:
        """Forward a login when its time has come. Return None if the controller is unavailable."""
        loop = asyncio.get_running_loop()
        account = username_in(body)
        device = device_cookie.device_id(scope["headers"], account)
        try:
            attempt = self._limits.charge(address_of(scope), account, device, loop.time())
            response = await self._forward_in_turn(attempt, scope, body, forward)
        except ApplianceError as error:
            refused = [refusal_of(scope, str(error.code), account_text(account))]
            return replace(problem_of(error), refusals=refused if error.status < 500 else [])
        if response is None:
            return None
        if response.status != 200:
            is_proof = response.status == NEW_PASSWORD or code_of(response) in PASSWORD_ACCEPTED
            if is_proof or response.status >= 500:
                self._limits.refund(attempt, loop.time())
            return response
        self._limits.succeed(attempt, loop.time())
        return response if device is not None else with_device_cookie(response, account)

    async def _forward_in_turn(
        self, attempt: Attempt, scope: Scope, body: bytes, forward: Forward
    ) -> Response | None:
        slot = (attempt.known, await asks_directory(attempt.account))
        if self._waiting[slot] >= MAX_WAITING:
            raise ApplianceError(Code.BUSY, "Too many attempts are pending; try again in a second.")
        self._waiting[slot] += 1
        try:
            await asyncio.sleep(attempt.start_at - asyncio.get_running_loop().time())
            async with self._slots[slot]:
                execution = Execution.DIRECTORY_LOGIN if slot[1] else Execution.LOGIN
                return await forward(scope | {"execution": execution}, body)
        finally:
            self._waiting[slot] -= 1


async def asks_directory(account: str) -> bool:
    if not is_configured():
        return False
    return await run_in_thread(partial(directory_logins.asks_directory, account), anonymous_pool)


def code_of(response: Response) -> object:
    """Return the code of a problem."""
    try:
        return parse_json(response.body)["code"]
    except (ValueError, KeyError, TypeError):
        return None


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
