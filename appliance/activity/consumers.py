"""The live feed's WebSocket: session cookie and exact Origin, or a token in the first frame; never in the URL."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterable
from functools import partial
from http.cookies import SimpleCookie
from typing import Any, Protocol
from weakref import WeakValueDictionary

from channels.generic.websocket import AsyncWebsocketConsumer

from appliance.accounts.authentication import COOKIE, token_for, tokens_for
from appliance.accounts.models import ApiToken, User
from appliance.accounts.permissions import grants_of, grants_of_all
from appliance.activity.feed import Scope, Subscriber, hub, samples_frame
from appliance.writer import off_loop

log = logging.getLogger(__name__)

HELLO_SECONDS = 10.0
RECHECK_SECONDS = 3.0
"""A revoked token or a changed role closes or narrows a socket within five seconds."""
FRAME_SECONDS = 0.25
"""Samples go out at most four times a second, the first of a pause at once; changes come at the hub's pace."""
MAX_FRAME_BYTES = 64 << 10
MAX_GPUS = 1024
GPUS_A_FRAME = 64
"""Of their last minutes; between two such frames, which take 3 ms each, everybody else has a turn."""
CLOSE_UNAUTHENTICATED, CLOSE_INVALID = 4401, 4400


def scope_of(user: User) -> Scope:
    everywhere, by_project = grants_of(user)
    return shared(Scope(everywhere, by_project))


def identify_all(texts: Iterable[str]) -> dict[str, Scope | None]:
    """Three reads, however many sockets there are."""
    tokens = {text: t for text, t in tokens_for(texts).items() if not t.user.must_change_password}
    grants = grants_of_all({t.user_id for t in tokens.values()})
    scopes = {user_id: shared(Scope(*granted)) for user_id, granted in grants.items()}
    return {text: scopes[tokens[text].user_id] if text in tokens else None for text in texts}


_shared: WeakValueDictionary[Scope, Scope] = WeakValueDictionary()


def shared(scope: Scope) -> Scope:
    """The one object for all who see the same: what they are told is chosen and encoded once."""
    return _shared.setdefault(scope, scope)


class Rechecked(Protocol):
    """Who was let in by a token, for longer than a request."""

    token_text: str

    async def checked_again(self, scope: Scope | None) -> None:
        """None: the token is no longer good."""


class Rechecking(set[Rechecked]):
    """All sockets and streams that are open, and the task that looks at their tokens and roles every three seconds while there are any."""

    task: asyncio.Task[None] | None = None

    def add(self, consumer: Rechecked) -> None:
        super().add(consumer)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self:
            await asyncio.sleep(RECHECK_SECONDS)
            texts = {c.token_text for c in self}
            try:
                found = await off_loop(partial(identify_all, texts))
            except Exception:
                log.exception("the sockets' tokens could not be checked again; they are closed")
                found = dict.fromkeys(texts)
            for consumer in [c for c in self if c.token_text in found]:
                try:
                    await consumer.checked_again(found[consumer.token_text])
                except Exception:
                    log.info("a socket went away while it was closed", exc_info=True)


def identify(token_text: str) -> tuple[User, ApiToken, Scope] | None:
    token = token_for(token_text)
    if token is None or token.user.must_change_password:
        return None
    return token.user, token, scope_of(token.user)


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """A WebSocket that we do not have."""
    await send({"type": "websocket.http.response.start", "status": 404, "headers": []})
    await send({"type": "websocket.http.response.body", "body": b""})


class FeedConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """hello → changes and samples. A client that comes back says where it stood."""

    subscriber: Subscriber | None = None
    late: asyncio.Task[None] | None = None
    work: tuple[asyncio.Task[None], ...] = ()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._leave()

    async def connect(self) -> None:
        self.token_text = ""
        self.sending_samples = asyncio.Lock()
        headers = {k.decode(): v.decode(errors="replace") for k, v in self.scope["headers"]}
        if "cookie" in headers and self._own_origin(headers):
            morsel = SimpleCookie(headers["cookie"]).get(COOKIE)
            self.token_text = morsel.value if morsel else ""
        await self.accept()
        self.late = asyncio.create_task(self._late())
        self.work = (self.late,)

    @staticmethod
    def _own_origin(headers: dict[str, str]) -> bool:
        """Another site's page may open a socket with the user's cookie: only our own page counts."""
        return headers.get("origin") == f"https://{headers.get('host', '')}"

    async def _late(self) -> None:
        await asyncio.sleep(HELLO_SECONDS)
        if self.subscriber is None:
            await self.close(CLOSE_UNAUTHENTICATED)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            if text_data is None or len(text_data) > MAX_FRAME_BYTES:
                raise ValueError
            message = json.loads(text_data)
            kind = message["type"]
            if kind == "hello" and self.subscriber is None:
                await self._hello(message)
            elif kind == "watch" and self.subscriber is not None:
                await self._watch([str(g) for g in message["gpus"]])
            else:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            await self.close(CLOSE_INVALID)

    async def _hello(self, message: dict[str, Any]) -> None:
        if self.late is None or self.late.done():
            return  # closed already
        self.late.cancel()  # it came in time; how long we take is not the client's fault
        if given := str(message.get("token", "")):
            self.token_text = given
        found = await off_loop(lambda: identify(self.token_text))
        if found is None:
            await self.close(CLOSE_UNAUTHENTICATED)
            return
        self.user = found[0]
        self.subscriber = Subscriber(asyncio.get_running_loop(), found[2])
        sequence = hub.sequence
        resumed = hub.join(
            self.subscriber, str(message.get("epoch", "")), int(message.get("sequence", -1))
        )
        await self._say(
            {
                "type": "hello",
                "epoch": hub.epoch,
                "sequence": sequence,
                "resumed": resumed,
                "server_seconds": time.time(),
            }
        )
        self.work += (
            asyncio.create_task(self._send_changes()),
            asyncio.create_task(self._send_samples()),
        )
        rechecking.add(self)

    async def _watch(self, gpus: list[str]) -> None:
        """Replaces the set of watched GPUs. What is kept of their last minutes comes first."""
        if len(gpus) > MAX_GPUS:
            raise ValueError
        assert self.subscriber is not None
        async with self.sending_samples:
            fresh = list(
                hub.watch(self.subscriber, await off_loop(lambda: hub.visible(self.user, gpus)))
            )
            for n in range(0, len(fresh), GPUS_A_FRAME):
                if history := {g: h for g in fresh[n : n + GPUS_A_FRAME] if (h := hub.history(g))}:
                    await self.send(samples_frame(history))
                    await asyncio.sleep(0)

    async def checked_again(self, scope: Scope | None) -> None:
        assert self.subscriber is not None
        if scope is None:
            await self.close(CLOSE_UNAUTHENTICATED)
        else:
            self.subscriber.scope = scope

    async def _say(self, message: dict[str, Any]) -> None:
        await self.send(json.dumps(message, default=str))

    async def _send_changes(self) -> None:
        assert self.subscriber is not None
        while True:
            await self.subscriber.wake.wait()
            self.subscriber.wake.clear()
            if self.subscriber.overflown:
                self.subscriber.overflown = False
                await self._say({"type": "resync", "sequence": hub.sequence})
            if batch := self.subscriber.take():
                await self.send(batch.frame)

    async def _send_samples(self) -> None:
        assert self.subscriber is not None
        while True:
            await self.subscriber.sampled.wait()
            async with self.sending_samples:
                await self.send(self.subscriber.samples_frame())
            await asyncio.sleep(FRAME_SECONDS)

    async def _leave(self) -> None:
        """However it ended: a client may go while it is answered, and then nobody says so."""
        rechecking.discard(self)
        if self.subscriber is not None:
            hub.leave(self.subscriber)
        work, self.work, self.late = self.work, (), None
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


rechecking = Rechecking()
