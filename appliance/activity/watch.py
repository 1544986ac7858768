"""GET /api/v1/watch: what changes, as server-sent events. Each carries a token; who comes back with it misses nothing, or is told to read everything again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.authentication import get_authorization_header
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import COOKIE
from appliance.activity.consumers import rechecking, scope_of
from appliance.activity.feed import Scope, Subscriber, hub
from appliance.errors import ApplianceError, Code
from appliance.rest import ApplianceView, caller, refuse_unknown_parameters

KEEP_ALIVE_SECONDS = 15.0
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass
class Watching:
    """What the ASGI handler serves instead of the response that names it."""

    scope: Scope
    token_text: str
    kinds: frozenset[str]
    """Empty: all."""
    epoch: str
    sequence: int
    ended: bool = False

    def join(self) -> None:
        """On the loop. Raises ApplianceError when what was missed is not kept any more."""
        self.subscriber = Subscriber(asyncio.get_running_loop(), self.scope)
        sequence = hub.sequence
        resumed = hub.join(self.subscriber, self.epoch, self.sequence)
        self.begin = self.sequence if resumed else sequence
        if self.epoch and not resumed:
            hub.leave(self.subscriber)
            raise ApplianceError(
                Code.GONE,
                "What changed since then is not kept any more; read everything again and watch without since.",
            )

    async def checked_again(self, scope: Scope | None) -> None:
        """Every few seconds: the token may have ended, the roles may have changed."""
        if scope is None:
            self.end()
        else:
            self.subscriber.scope = scope

    def end(self) -> None:
        self.ended = True
        self.subscriber.wake.set()

    async def events(self) -> AsyncIterator[str]:
        """Text of the stream."""
        yield f"id: {hub.epoch}.{self.begin}\nevent: hello\ndata: {{}}\n\n"
        while not self.ended:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.subscriber.wake.wait(), KEEP_ALIVE_SECONDS)
            self.subscriber.wake.clear()
            if self.subscriber.overflown:
                yield "event: resync\ndata: {}\n\n"
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
            yield "".join(texts) or ": still here\n\n"

    async def serve(self, receive: Callable[[], Awaitable[dict[str, Any]]], send: Send) -> None:
        """Until the client goes, the token ends or the process does."""
        gone = asyncio.create_task(self._until_gone(receive))
        rechecking.add(self)
        watching.add(self)
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
            gone.cancel()
            watching.discard(self)
            rechecking.discard(self)
            hub.leave(self.subscriber)

    async def _until_gone(self, receive: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()

    def __hash__(self) -> int:
        return id(self)


watching: set[Watching] = set()


def end_all() -> None:
    """The process ends."""
    for one in watching:
        one.end()


def token_of(request: Request) -> str:
    words = get_authorization_header(request).decode(errors="replace").split()
    return words[1] if len(words) == 2 else str(request.COOKIES.get(COOKIE, ""))


class WatchView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}
    refusals: ClassVar[frozenset[int]] = frozenset({410})

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "kinds",
                str,
                description="event, task, allocation, partition, session, node, gpu; commas between; all without it.",
            ),
            OpenApiParameter("since", str, description="The id of the last one that was read."),
        ],
        responses={(200, "text/event-stream"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> Response:
        """Changes of what one may see, as server-sent events: `event` is the kind, `data` its id and row (null: gone), `id` the token to come back with."""
        refuse_unknown_parameters(request, ["kinds", "since"])
        kinds = frozenset(filter(None, request.query_params.get("kinds", "").split(",")))
        if unknown := kinds - hub.kinds:
            raise ApplianceError(
                Code.INVALID,
                f"kinds: {sorted(unknown)[0][:40]} is none of {', '.join(sorted(hub.kinds))}.",
            )
        epoch, _, sequence = request.query_params.get("since", "").partition(".")
        if epoch and not (sequence.isascii() and sequence.isdigit() and len(sequence) < 20):
            raise ApplianceError(Code.INVALID, "since must be the id of an event of this stream.")
        response = Response()
        response.watching = Watching(
            scope_of(caller(request)), token_of(request), kinds, epoch, int(sequence or -1)
        )  # type: ignore[attr-defined]
        return response
