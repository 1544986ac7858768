"""The ASGI application: HTTP through a bounded pool of threads, WebSockets through Channels."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
django.setup()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402 - after setup, as Channels asks
from django.core.handlers.asgi import ASGIHandler, ASGIRequest  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.urls import Resolver404, resolve  # noqa: E402

from appliance.activity.feed import hub  # noqa: E402
from appliance.activity.watch import Watching  # noqa: E402
from appliance.encoding import encoded  # noqa: E402
from appliance.errors import ApplianceError  # noqa: E402
from appliance.lister import ROUTES, Lister, passed  # noqa: E402
from appliance.rest import Until, problem  # noqa: E402
from appliance.urls import websocket_urlpatterns  # noqa: E402
from appliance.writer import listers, off_loop, readers  # noqa: E402

MAX_BODY_BYTES = 4 << 20
MAX_WAITING = 256
"""Requests that look, and as many that change something."""


class PooledHandler(ASGIHandler):
    """Django's synchronous path on a few long-lived threads, each with its database connection.

    The plain handler would make one thread a request, or put all of them on one.
    """

    def __init__(self) -> None:
        super(ASGIHandler, self).__init__()
        self.load_middleware(is_async=False)
        self._waiting: Counter[ThreadPoolExecutor] = Counter()
        self.lister: Lister | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError(f"unexpected scope {scope['type']}")
        body = tempfile.SpooledTemporaryFile(max_size=1 << 20)  # noqa: SIM115 - closed with the request
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
        if self.lister is not None and scope["method"] == "GET" and of_rows(scope["path"]):
            answer = await self.lister.ask(passed(scope))
            if answer is not None:
                return await self._send(HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers)), send)
        threads = listers if scope["method"] in ("GET", "HEAD") else readers
        if self._waiting[threads] >= MAX_WAITING:
            return await self._refuse(send, 503)
        self._waiting[threads] += 1
        try:
            response = await off_loop(partial(self._answered, ASGIRequest(scope, body)), threads)
        finally:
            self._waiting[threads] -= 1
        if (watching := getattr(response, "watching", None)) is not None:
            await self._watched(watching, receive, send)
            return
        if (until := getattr(response, "until", None)) is not None and response.status_code < 400:
            response = await self._awaited(until, response)
        await self._send(response, send)

    def _answered(self, request: ASGIRequest) -> Any:
        """All of it on one thread: each hop between threads waits for the interpreter."""
        response = self.get_response(request)
        if response.streaming:
            whole = HttpResponse(b"".join(response), status=response.status_code, headers=dict(response.items()))
            whole.cookies = response.cookies
            response.close()
            return whole
        response.close()
        return response

    async def _watched(self, watching: Watching, receive: Any, send: Any) -> None:
        try:
            watching.join()
        except ApplianceError as error:
            body = problem(error.code, error.detail, None)
            await self._send(HttpResponse(encoded(body.data), status=body.status_code, content_type="application/problem+json"), send)
        else:
            await watching.serve(receive, send)

    @staticmethod
    async def _awaited(until: Until, response: Any) -> Any:
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
        fresh = HttpResponse(encoded(body), status=response.status_code, content_type="application/json")
        if "version" in body:
            fresh["ETag"] = f'"{body["version"]}"'
        return fresh

    @staticmethod
    async def _send(response: Any, send: Any) -> None:
        headers = [(k.encode("ascii").lower(), v.encode("latin-1")) for k, v in response.items()]
        headers += [(b"set-cookie", c.output(header="").strip().encode()) for c in response.cookies.values()]
        if not response.has_header("Content-Length"):
            headers.append((b"content-length", b"%d" % len(response.content)))
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": response.content})

    async def _refuse(self, send: Any, status: int) -> None:
        response = HttpResponse(status=status)
        response["Retry-After"] = "1"
        await self._send(response, send)


def of_rows(path: str) -> bool:
    try:
        resolve(path, ROUTES)
    except Resolver404:
        return False
    return True


handler = PooledHandler()
application = ProtocolTypeRouter({"http": handler, "websocket": URLRouter(websocket_urlpatterns)})
