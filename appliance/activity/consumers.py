"""WebSocket of the feed.

Clients authenticate with the session cookie and an exact Origin, or with a token in the first
frame; never in the URL.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

from channels.generic.websocket import AsyncWebsocketConsumer

from appliance.accounts import recent_tokens, token_cache
from appliance.accounts.authentication import (
    CONSOLE_COOKIE,
    authenticate_token,
    authenticate_tokens,
)
from appliance.accounts.bindings import Held, held_by_user
from appliance.accounts.models import ApiToken, User
from appliance.accounts.permissions import combined, held, limited_to, privileges_of
from appliance.accounts.second_factor_policy import lacks_second_factor
from appliance.activity.feed import Scope, Subscriber, hub, samples_frame
from appliance.api import refusals
from appliance.api.client_connection import connection_of
from appliance.api.errors import ApplianceError, Code
from appliance.api.parsing import parse_json
from appliance.api.refusals import Refusal
from appliance.api.request_cookie import cookie_of
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import anonymous_pool, request_pool, run_in_thread
from appliance.runtime.background import keep_running

log = logging.getLogger(__name__)

HELLO_SECONDS = 10.0
AUTHORIZATION_CHECK_SECONDS = 3.0
"""Interval of authorization checks. A change of users, tokens or roles causes one at once; the
interval covers expiry, and changes by another appliance on the same database."""
MIN_CHECK_INTERVAL_SECONDS = 0.25
FRAME_SECONDS = 0.25
"""Minimum interval between frames with samples; the first one after a pause is sent at once.

The hub limits the rate of changes."""
MAX_FRAME_BYTES = 64 << 10
MAX_GPUS = 1024
GPUS_PER_FRAME = 64
"""GPUs in one frame of history. Encoding one takes 3 ms; the event loop runs between frames."""
CLOSE_INVALID, CLOSE_UNAUTHENTICATED, CLOSE_ROLES_CHANGED = 4400, 4401, 4403


def scope_of(user: User) -> Scope:
    return shared(Scope(*privileges_of(user), frozenset(held(user).inventory)))


def may_work(user: User) -> bool:
    """Return whether the user has replaced a one-time password and has a required second factor."""
    return not user.must_change_password and not lacks_second_factor(user)


def authenticate_all(tokens: Iterable[str]) -> dict[str, Scope | None]:
    """Return the scope of each token, None if it is invalid. Runs three database reads in total."""
    valid = {text: t for text, t in authenticate_tokens(tokens).items() if may_work(t.user)}
    found = held_by_user({t.user_id for t in valid.values()})
    scopes = {text: shared(scope_within(found[t.user_id], t.scopes)) for text, t in valid.items()}
    return {text: scopes.get(text) for text in tokens}


def scope_within(found: Held, scopes: Collection[str]) -> Scope:
    """Return what a token with these scopes may view; all that its user holds if there are none."""
    limited = limited_to(found, scopes)
    return Scope(*combined(limited.grants), frozenset(limited.inventory))


_shared: WeakValueDictionary[Scope, Scope] = WeakValueDictionary()


def shared(scope: Scope) -> Scope:
    """Return one shared object for equal scopes, so that frames are filtered and encoded once."""
    return _shared.setdefault(scope, scope)


class AuthenticatedConnection(Protocol):
    """Connection that was authenticated by a token and outlives one request."""

    token_text: str
    identity_version: int
    """Version of the token cache before the connection was authenticated."""

    async def end_if_changed(self, scope: Scope | None) -> None:
        """End the connection unless this is its scope. None means that the token is invalid."""

    async def forget_hidden(self) -> None:
        """Send nothing more of objects that the same scope does not show any more."""


class AuthorizationChecker(set[AuthenticatedConnection]):
    """Open connections, and the task that ends those whose token or roles have changed."""

    task: asyncio.Task[None] | None = None
    loop: asyncio.AbstractEventLoop | None = None

    def __init__(self) -> None:
        super().__init__()
        self._wake = asyncio.Event()
        self.objects_moved = threading.Event()
        """Pools, nodes or GPUs have changed, and with them perhaps who may view a GPU."""

    def add(self, connection: AuthenticatedConnection) -> None:
        super().add(connection)
        if self.task is None or self.task.done():
            self.loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
            self.task = asyncio.create_task(keep_running(self._run))
        if connection.identity_version != token_cache.version():
            self._wake.set()

    def check_soon(self) -> None:
        """Check all connections at once. Thread-safe."""
        if self and self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._wake.set)

    async def _run(self) -> None:
        while self:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), AUTHORIZATION_CHECK_SECONDS)
            self._wake.clear()
            await self._check()
            await asyncio.sleep(MIN_CHECK_INTERVAL_SECONDS)

    async def _check(self) -> None:
        tokens = {c.token_text for c in self}
        try:
            scopes = await run_in_thread(partial(authenticate_all, tokens))
        except Exception:
            log.exception("feed: checking tokens failed, closing all sockets")
            scopes = dict.fromkeys(tokens)
        moved = self.objects_moved.is_set()
        self.objects_moved.clear()
        for connection in [c for c in self if c.token_text in scopes]:
            try:
                await connection.end_if_changed(scopes[connection.token_text])
                if moved:
                    await connection.forget_hidden()
            except Exception:
                log.info("feed: client disconnected while its socket was closed", exc_info=True)


def identify(token_text: str, address: str) -> tuple[User, ApiToken, Scope] | None:
    """Return the user, the token and what they may view, or None if the token is invalid.

    Raises ApplianceError TOKEN_NETWORK if the token is not valid from this address.
    """
    token = authenticate_token(token_text, address)
    if token is None or not may_work(token.user):
        return None
    return token.user, token, scope_of(token.user)


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """Reject a WebSocket with an unknown path: reply 404."""
    await send({"type": "websocket.http.response.start", "status": 404, "headers": []})
    await send({"type": "websocket.http.response.body", "body": b""})


class FeedConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """Feed of one client: a hello, then changes and samples.

    A client resumes by sending its last epoch and sequence number in the hello.
    """

    subscriber: Subscriber | None = None
    hello_timeout: asyncio.Task[None] | None = None
    tasks: tuple[asyncio.Task[None], ...] = ()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._clean_up()

    async def connect(self) -> None:
        self.token_text = ""
        self.sending_samples = asyncio.Lock()
        headers = {k.decode(): v.decode(errors="replace") for k, v in self.scope["headers"]}
        if "cookie" in headers and self._own_origin(headers):
            self.token_text = cookie_of(self.scope["headers"], CONSOLE_COOKIE)
        await self.accept()
        self.hello_timeout = asyncio.create_task(self._close_without_hello())
        self.tasks = (self.hello_timeout,)

    @staticmethod
    def _own_origin(headers: dict[str, str]) -> bool:
        """Return whether the Origin is the appliance: pages of other sites also send the cookie."""
        return headers.get("origin") == f"https://{headers.get('host', '')}"

    async def _close_without_hello(self) -> None:
        await asyncio.sleep(HELLO_SECONDS)
        if self.subscriber is None:
            await self.close(CLOSE_UNAUTHENTICATED)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            if text_data is None or len(text_data) > MAX_FRAME_BYTES:
                raise ValueError
            message = parse_json(text_data)
            kind = message["type"]
            if kind == "hello" and self.subscriber is None:
                await self._hello(message)
            elif kind == "watch" and self.subscriber is not None:
                await self._watch([str(g) for g in message["gpus"]])
            else:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            await self.close(CLOSE_INVALID)

    async def _hello(self, message: dict[str, Any]) -> None:
        if self.hello_timeout is None or self.hello_timeout.done():
            return  # closed already
        self.hello_timeout.cancel()  # the deadline excludes the time of authentication
        if token := str(message.get("token", "")):
            self.token_text = token
        self.identity_version = token_cache.version()
        found = await self._identify()
        if found is None:
            return
        self.user = found[0]
        connection_of(self.scope).authenticate(str(self.user.pk))
        self.subscriber = Subscriber(asyncio.get_running_loop(), found[2])
        sequence = hub.sequence
        resumed = hub.join(
            self.subscriber, str(message.get("epoch", "")), int(message.get("sequence", -1))
        )
        await self._send_json(
            {
                "type": "hello",
                "epoch": hub.epoch,
                "sequence": sequence,
                "resumed": resumed,
                "server_seconds": time.time(),
            }
        )
        self.tasks += (
            asyncio.create_task(self._send_changes()),
            asyncio.create_task(self._send_samples()),
        )
        authorization_checker.add(self)

    async def _identify(self) -> tuple[User, ApiToken, Scope] | None:
        """Return the client's user, token and scope, or close the socket and return None."""
        address = str((self.scope.get("client") or ("",))[0])
        known = recent_tokens.account_of(self.token_text, address) is not None
        threads = request_pool if known else anonymous_pool
        found, reason = None, ""
        try:
            found = await run_in_thread(lambda: identify(self.token_text, address), threads)
        except ApplianceError as error:
            reason = str(error.code)
        if found is None:
            if self.token_text:
                code = reason or str(Code.UNAUTHENTICATED)
                refusals.note([Refusal(actor="", address=address[:64], code=code, action="feed")])
            await self.close(CLOSE_UNAUTHENTICATED, reason or None)
        return found

    async def _watch(self, gpus: list[str]) -> None:
        """Replace the set of watched GPUs and send the history of the added ones."""
        if len(gpus) > MAX_GPUS:
            raise ValueError
        assert self.subscriber is not None
        async with self.sending_samples:
            added = list(
                hub.watch(
                    self.subscriber, await run_in_thread(lambda: hub.visible(self.user, gpus))
                )
            )
            for n in range(0, len(added), GPUS_PER_FRAME):
                if history := {
                    g: h for g in added[n : n + GPUS_PER_FRAME] if (h := hub.history(g))
                }:
                    await self.send(samples_frame(history))
                    await asyncio.sleep(0)

    async def end_if_changed(self, scope: Scope | None) -> None:
        """Close the socket, so that the client reloads with its new roles or signs in."""
        assert self.subscriber is not None
        if scope is None:
            await self.close(CLOSE_UNAUTHENTICATED)
        elif scope != self.subscriber.scope:
            await self.close(CLOSE_ROLES_CHANGED)

    async def forget_hidden(self) -> None:
        """Watch no GPU that has moved to where the user may not view it."""
        assert self.subscriber is not None
        gpus = self.subscriber.gpus
        if gpus and "inventory.view" not in self.subscriber.scope.everywhere:
            async with self.sending_samples:
                visible = await run_in_thread(lambda: hub.visible(self.user, gpus))
                hub.watch(self.subscriber, visible & self.subscriber.gpus)

    async def _send_json(self, message: dict[str, Any]) -> None:
        await self.send(json.dumps(message, default=str))

    async def _send_changes(self) -> None:
        assert self.subscriber is not None
        while True:
            await self.subscriber.wake.wait()
            self.subscriber.wake.clear()
            if self.subscriber.overflown:
                self.subscriber.overflown = False
                await self._send_json({"type": "resync", "sequence": hub.sequence})
            if batch := self.subscriber.take():
                await self.send(batch.frame)

    async def _send_samples(self) -> None:
        assert self.subscriber is not None
        while True:
            await self.subscriber.sampled.wait()
            async with self.sending_samples:
                await self.send(self.subscriber.samples_frame())
            await asyncio.sleep(FRAME_SECONDS)

    async def _clean_up(self) -> None:
        """Unsubscribe and cancel the tasks. Channels reports no disconnect during a request."""
        authorization_checker.discard(self)
        if self.subscriber is not None:
            hub.leave(self.subscriber)
        tasks, self.tasks, self.hello_timeout = self.tasks, (), None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


authorization_checker = AuthorizationChecker()
change_log.subscribe(lambda change: authorization_checker.check_soon(), Topic.IDENTITY)
change_log.subscribe(
    lambda change: authorization_checker.objects_moved.set(), Topic.GPU, Topic.NODE, Topic.POOL
)
