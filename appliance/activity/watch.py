"""GET /api/v1/watch: changes as server-sent events.

Each event has an id. A client that reconnects with it receives all later changes, or the error 410
if they are no longer available.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.authentication import get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import token_cache
from appliance.accounts.authentication import CONSOLE_COOKIE
from appliance.activity.consumers import authorization_checker, identify
from appliance.activity.feed import Scope, Subscriber, hub
from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import reject_unknown_parameters
from appliance.api.negotiation import AnyAccept
from appliance.api.request_cookie import cookie_in
from appliance.api.views import ApplianceView, ErrorCodes

KEEP_ALIVE_SECONDS = 15.0
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass
class WatchStream:
    """Stream of one client. The ASGI handler serves it instead of its response."""

    scope: Scope
    token_text: str
    kinds: frozenset[str]
    """Kinds to send; all if empty."""
    epoch: str
    sequence: int
    identity_version: int
    """Version of the token cache before the request was authenticated."""
    ended: bool = False

    def join(self) -> None:
        """Subscribe. Call on the event loop.

        Raises ApplianceError if the missed changes are no longer available.
        """
        self.subscriber = Subscriber(asyncio.get_running_loop(), self.scope)
        sequence = hub.sequence
        resumed = hub.join(self.subscriber, self.epoch, self.sequence)
        self.begin = self.sequence if resumed else sequence
        if self.epoch and not resumed:
            hub.leave(self.subscriber)
            raise ApplianceError(
                Code.GONE,
                "The changes since this event are no longer available; "
                "read all objects again and watch without `since`.",
            )

    async def end_if_changed(self, scope: Scope | None) -> None:
        """End the stream; after a change of roles, request that the client reads all objects."""
        if scope is not None and scope != self.scope:
            self.subscriber.overflown = True
        if scope != self.scope:
            self.end()

    async def forget_hidden(self) -> None:
        """Do nothing: the stream has no samples."""

    def end(self) -> None:
        self.ended = True
        self.subscriber.wake.set()

    async def events(self) -> AsyncIterator[str]:
        """Yield the text of the stream."""
        yield f"id: {hub.epoch}.{self.begin}\nevent: hello\ndata: {{}}\n\n"
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.subscriber.wake.wait(), KEEP_ALIVE_SECONDS)
            self.subscriber.wake.clear()
            if self.subscriber.overflown:
                yield "event: resync\ndata: {}\n\n"
                return
            if self.ended:
                return
            batch = self.subscriber.take()
            ready = (
                [c for c in batch.changes.values() if not self.kinds or c.kind in self.kinds]
                if batch
                else []
            )
            texts = [
                f"id: {hub.epoch}.{c.sequence}\nevent: {c.kind}\ndata: {c.text}\n\n" for c in ready
            ]
            yield "".join(texts) or ": keep-alive\n\n"

    async def serve(self, receive: Callable[[], Awaitable[dict[str, Any]]], send: Send) -> None:
        """Send events until the client disconnects, the token expires or the process ends."""
        disconnected = asyncio.create_task(self._end_at_disconnect(receive))
        authorization_checker.add(self)
        open_streams.add(self)
        try:
            headers = [
                (b"content-type", b"text/event-stream"),
                (b"cache-control", b"no-store"),
                (b"x-content-type-options", b"nosniff"),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for text in self.events():
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            disconnected.cancel()
            open_streams.discard(self)
            authorization_checker.discard(self)
            hub.leave(self.subscriber)

    async def _end_at_disconnect(self, receive: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()

    def __hash__(self) -> int:
        return id(self)


open_streams: set[WatchStream] = set()


def end_all() -> None:
    """End all streams, because the process ends."""
    for stream in open_streams:
        stream.end()


def token_of(request: Request) -> str:
    words = get_authorization_header(request).decode(errors="replace").split()
    return words[1] if len(words) == 2 else cookie_in(request.META, CONSOLE_COOKIE)


class WatchView(ApplianceView):
    content_negotiation_class = AnyAccept
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}
    error_codes: ClassVar[ErrorCodes] = {"GET": (Code.GONE,)}

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "kinds",
                str,
                description="Comma-separated: alarm, event, task, allocation, partition, session, "
                "node, gpu, pool. Default: all.",
            ),
            OpenApiParameter("since", str, description="Id of the last event received."),
        ],
        responses={(200, "text/event-stream"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> Response:
        """Stream changes of visible objects as server-sent events.

        `event` is the kind, `data` has the id and the row of the object (null if it was removed),
        and `id` is the value for `since` when the client reconnects.
        """
        reject_unknown_parameters(request, ["kinds", "since"])
        kinds = frozenset(filter(None, request.query_params.get("kinds", "").split(",")))
        if unknown := kinds - hub.kinds:
            raise ApplianceError(
                Code.INVALID,
                f"kinds: {sorted(unknown)[0][:40]} is not one of {', '.join(sorted(hub.kinds))}.",
            )
        epoch, _, sequence = request.query_params.get("since", "").partition(".")
        if epoch and not (sequence.isascii() and sequence.isdigit() and len(sequence) < 20):
            raise ApplianceError(Code.INVALID, "since must be the id of an event of this stream.")
        identity_version, token_text = token_cache.version(), token_of(request)
        found = identify(token_text, request.META.get("REMOTE_ADDR", ""))
        if found is None:
            raise AuthenticationFailed
        response = Response()
        vars(response)["watch_stream"] = WatchStream(
            found[2], token_text, kinds, epoch, int(sequence or -1), identity_version
        )
        return response
