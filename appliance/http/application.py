"""ASGI application of the HTTP server process.

Safe methods run here on read threads, WebSockets run in Channels, and all other requests are
forwarded to the controller (see http/request.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import tempfile
from dataclasses import replace
from functools import partial
from typing import IO, Any, Protocol

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
django.setup()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402 - needs django.setup()
from django.urls import path, re_path  # noqa: E402
from uvicorn.protocols.utils import ClientDisconnected  # noqa: E402

from appliance.accounts import recent_tokens, token_networks  # noqa: E402
from appliance.accounts.authentication import find_valid_token  # noqa: E402
from appliance.activity.consumers import FeedConsumer, refuse  # noqa: E402
from appliance.activity.feed import hub  # noqa: E402
from appliance.activity.watch import WatchStream  # noqa: E402
from appliance.api import refusals  # noqa: E402
from appliance.api.client_connection import connection_of  # noqa: E402
from appliance.api.errors import ApplianceError, Code  # noqa: E402
from appliance.api.problems import INVALID_TOKEN, SIGN_IN  # noqa: E402
from appliance.api.wait import Wait  # noqa: E402
from appliance.db.writer import (  # noqa: E402
    READ_THREADS,
    REQUEST_THREADS,
    anonymous_pool,
    read_pool,
    run_in_thread,
)
from appliance.http.handler import Response, SyncHandler, problem_of, send_response  # noqa: E402
from appliance.http.lanes import Lane, LaneFullError, Lanes  # noqa: E402
from appliance.http.login_gate import LoginGate  # noqa: E402
from appliance.http.request import (  # noqa: E402
    MAX_ANONYMOUS_BODY_BYTES,
    MAX_BODY_BYTES,
    BodyTimeoutError,
    BodyTooLargeError,
    ClientDisconnectedError,
    Execution,
    Scope,
    address_of,
    execution_of,
    read_body,
    read_scope,
    refusal_of,
    requires_token,
    token_text_of,
)
from appliance.http.turns import Turns  # noqa: E402
from appliance.installation import serving as installation  # noqa: E402

log = logging.getLogger(__name__)

BODY_IN_MEMORY_BYTES = 1 << 20
LANES = {
    Execution.READ: Lane.READ,
    Execution.WRITE: Lane.WRITE,
    Execution.INLINE_WRITE: Lane.WRITE,
    Execution.RENEWAL: Lane.RENEWAL,
}
"""Lanes of requests with a token that was valid lately. Logins have the login gate."""
UNAVAILABLE = Response(503, [(b"retry-after", b"1")], b"")


class Forwarder(Protocol):
    """Sends requests to the controller."""

    async def forward(self, scope: dict[str, Any], body: bytes) -> Response | None:
        """Return the controller's response, or None if the controller is unavailable."""


class HttpApplication:
    """Bounds pending requests by lane, and waits for `wait` without a thread.

    Django's own handler would use one thread per request, or a single one for all.
    """

    def __init__(self) -> None:
        self._handler = SyncHandler()
        self._lanes = Lanes()
        self._logins = LoginGate()
        self._turns = {
            Execution.READ: Turns(2 * READ_THREADS),
            Execution.WRITE: Turns(2 * REQUEST_THREADS),
        }
        self.forwarder: Forwarder | None = None
        """None in tests: this process then handles writes, too."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].startswith(installation.PREFIX):
            await self._serve_installation(scope, send)
            return
        with tempfile.SpooledTemporaryFile(max_size=BODY_IN_MEMORY_BYTES) as body:
            try:
                response = await self._receive_and_respond(scope, receive, body)
            except ClientDisconnectedError:
                return
            except BodyTooLargeError:
                response = Response(413, [], b"")
            except BodyTimeoutError:
                response = Response(408, [(b"connection", b"close")], b"")
            except LaneFullError:
                response = None
        if response is not None:
            refusals.note(response.refusals)
        if response is None:
            await send_response(UNAVAILABLE, send)
        elif response.watch_stream is not None:
            await self._watch(response.watch_stream, receive, send)
        elif response.wait is not None:
            await send_response(await self._delayed(response.wait, response, scope), send)
        else:
            await send_response(response, send)

    async def _serve_installation(self, scope: Scope, send: Any) -> None:
        try:
            with self._lanes.enter(Lane.INSTALLATION, address_of(scope)):
                await installation.serve(scope, send)
        except LaneFullError:
            await send_response(UNAVAILABLE, send)

    async def _receive_and_respond(
        self, scope: Scope, receive: Any, body: IO[bytes]
    ) -> Response | None:
        """Return None if the controller is unavailable."""
        execution = scope["execution"] = execution_of(scope)
        token_text = token_text_of(scope)
        account = await self._account_of(token_text, address_of(scope))
        trusted = account is not None
        if account is not None:
            connection_of(scope).authenticate(account)
        elif execution is not Execution.READ and requires_token(scope):
            return unauthenticated(scope)
        await read_body(receive, body, MAX_BODY_BYTES if trusted else MAX_ANONYMOUS_BODY_BYTES)
        if execution is Execution.LOGIN:
            return await self._logins.respond(scope, body.read(), self._forward)
        if execution is Execution.PROVIDER:
            with self._lanes.enter(Lane.PROVIDER, address_of(scope)):
                return await self._forward(scope, body.read())
        lane = LANES[execution] if trusted else Lane.ANONYMOUS
        with self._lanes.enter(lane, address_of(scope), account or ""):
            async with self._turn(execution, account):
                if execution is Execution.READ:
                    threads = read_pool if trusted else anonymous_pool
                    return await run_in_thread(partial(self._handler.respond, scope, body), threads)
                return await self._forward(scope, body.read())

    def _turn(
        self, execution: Execution, account: str | None
    ) -> contextlib.AbstractAsyncContextManager[None]:
        """Return the turn of an account at threads that many accounts share."""
        turns = self._turns.get(execution)
        if turns is None or account is None:
            return contextlib.nullcontext()
        return turns.take(account)

    async def _account_of(self, token_text: str, address: str) -> str | None:
        """Return the account of a token that is valid from this address, or was lately, or None."""
        if token_text and recent_tokens.find(token_text) is None:
            with self._lanes.enter(Lane.ANONYMOUS, address):
                await run_in_thread(partial(find_valid_token, token_text), anonymous_pool)
        return recent_tokens.account_of(token_text, address)

    async def _forward(self, scope: Scope, body: bytes) -> Response | None:
        if self.forwarder is not None:
            return await self.forwarder.forward(scope, body)
        return await run_in_thread(partial(self._handler.respond, scope, io.BytesIO(body)))

    async def _watch(self, watch_stream: WatchStream, receive: Any, send: Any) -> None:
        try:
            watch_stream.join()
        except ApplianceError as error:
            await send_response(problem_of(error), send)
        else:
            await watch_stream.serve(receive, send)

    async def _delayed(self, wait: Wait, response: Response, scope: Scope) -> Response:
        """Check the object after each of its changes until the wait is over or times out."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait.seconds
        with hub.listening(wait.kind, wait.object_id) as changed:
            while True:
                changed.clear()
                if await run_in_thread(wait.is_over, read_pool) or loop.time() >= deadline:
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), deadline - loop.time())
        read = partial(self._handler.respond, read_scope(scope, wait.path), io.BytesIO())
        current = await run_in_thread(read, read_pool)
        return replace(current, status=response.status) if current.status == 200 else current


def unauthenticated(scope: Scope) -> Response:
    """Return the response to a change without a token, or with one that is not valid here."""
    path, token_text = scope["path"], token_text_of(scope)
    if token_text and recent_tokens.find(token_text):
        error = ApplianceError(Code.TOKEN_NETWORK, token_networks.REFUSED, instance=path)
    else:
        detail = INVALID_TOKEN if token_text else SIGN_IN
        error = ApplianceError(Code.UNAUTHENTICATED, detail, instance=path)
    refused = [refusal_of(scope, str(error.code))] if token_text else []
    return replace(problem_of(error), refusals=refused)


class TrackedApplication:
    """Reports the begin and end of each request to its connection."""

    def __init__(self, inner: ProtocolTypeRouter) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        connection = connection_of(scope)
        connection.begin_request()
        try:
            await self._inner(scope, receive, send)
        except ClientDisconnected:
            raise
        except Exception:
            log.exception("http: %s %s failed", scope.get("method", "WebSocket"), scope["path"])
            raise
        finally:
            connection.end_request()


http_application = HttpApplication()
websocket_urlpatterns = [
    path("api/v1/feed", FeedConsumer.as_asgi()),
    re_path("", refuse),  # type: ignore[arg-type]  # an ASGI application
]
application = TrackedApplication(
    ProtocolTypeRouter({"http": http_application, "websocket": URLRouter(websocket_urlpatterns)})
)
