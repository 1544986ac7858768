"""The ASGI application: HTTP through a bounded pool of threads, WebSockets through Channels. What changes something goes to the process that decides."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections import Counter
from functools import partial
from typing import IO, Any, Protocol

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
django.setup()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402 - after setup, as Channels asks
from django.urls import Resolver404, resolve  # noqa: E402

from appliance.activity.feed import hub  # noqa: E402
from appliance.activity.watch import Watching  # noqa: E402
from appliance.answers import Answer, Answerer, refusal  # noqa: E402
from appliance.encoding import encoded  # noqa: E402
from appliance.errors import ApplianceError  # noqa: E402
from appliance.rest import ApplianceView, Until  # noqa: E402
from appliance.urls import websocket_urlpatterns  # noqa: E402
from appliance.writer import listers, off_loop, readers  # noqa: E402

MAX_BODY_BYTES = 4 << 20
MAX_WAITING = 256
"""Requests that look, and as many that change something."""


class Decider(Protocol):
    """The process that changes rows."""

    async def change(self, scope: dict[str, Any], body: bytes, *, quick: bool) -> Answer | None:
        """What it answers; None while it cannot. `quick`: as its view says."""


class PooledHandler:
    """Requests on a few long-lived threads, each with its database connection.

    Django's own handler would make one thread a request, or put all of them on one.
    """

    def __init__(self) -> None:
        self._answerer = Answerer()
        self._waiting: Counter[bool] = Counter()
        self.decider: Decider | None = None
        """None: this process decides, too."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError(f"unexpected scope {scope['type']}")
        with tempfile.SpooledTemporaryFile(max_size=1 << 20) as body:
            size, more = 0, True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                size += len(message.get("body", b""))
                if size > MAX_BODY_BYTES:
                    return await self._refuse(send, 413)
                body.write(message.get("body", b""))
                more = message.get("more_body", False)
            body.seek(0)
            answer = await self._bounded(scope, body)
        if answer is None:
            return await self._refuse(send, 503)
        if answer.watching is not None:
            return await self._watched(answer.watching, receive, send)
        if answer.until is not None:
            answer = await self._awaited(answer.until, answer)
        await self._send(answer, send)

    async def _bounded(self, scope: dict[str, Any], body: IO[bytes]) -> Answer | None:
        """None when too many wait, or nobody can."""
        view = None if scope["method"] in LOOKING else view_of(scope["path"])
        looks = view is None or (
            scope["method"] in view.looks and b"dry_run" not in scope.get("query_string", b"")
        )
        if self._waiting[looks] >= MAX_WAITING:
            return None
        self._waiting[looks] += 1
        try:
            if view is None or looks or self.decider is None:
                return await off_loop(
                    partial(self._answerer.answer, scope, body), listers if looks else readers
                )
            return await self.decider.change(scope, body.read(), quick=view.quick)
        finally:
            self._waiting[looks] -= 1

    async def _watched(self, watching: Watching, receive: Any, send: Any) -> None:
        try:
            watching.join()
        except ApplianceError as error:
            await self._send(refusal(error), send)
        else:
            await watching.serve(receive, send)

    @staticmethod
    async def _awaited(until: Until, answer: Answer) -> Answer:
        """Looks after each change of the object, until it is over or time is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + until.seconds
        with hub.listening(until.kind, until.object_id) as changed:
            while True:
                changed.clear()
                if await off_loop(until.over, listers) or loop.time() >= deadline:
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), deadline - loop.time())
        body = await off_loop(until.show, listers)
        headers = [
            (name, value)
            for name, value in answer.headers
            if name not in (b"content-length", b"etag")
        ]
        if "version" in body:
            headers.append((b"etag", f'"{body["version"]}"'.encode()))
        return Answer(answer.status, headers, encoded(body))

    @staticmethod
    async def _send(answer: Answer, send: Any) -> None:
        headers = (
            answer.headers
            if any(name == b"content-length" for name, _ in answer.headers)
            else [*answer.headers, length_of(answer.body)]
        )
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _refuse(self, send: Any, status: int) -> None:
        await self._send(Answer(status, [(b"retry-after", b"1")], b""), send)


def length_of(body: bytes) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % len(body)


LOOKING = ("GET", "HEAD", "OPTIONS")


def view_of(path: str) -> type[ApplianceView] | None:
    """None where no view of ours is."""
    try:
        found = getattr(resolve(path).func, "cls", None)
    except Resolver404:
        return None
    return found if found is not None and issubclass(found, ApplianceView) else None


handler = PooledHandler()
application = ProtocolTypeRouter({"http": handler, "websocket": URLRouter(websocket_urlpatterns)})
