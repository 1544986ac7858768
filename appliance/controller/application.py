"""ASGI application of the controller: requests with unsafe methods, behind a Unix socket.

The HTTP server process forwards them, each with its execution. Each response carries the sequence
number of the change log after the request; the HTTP server returns the response once it has applied
the log up to it.
"""

from __future__ import annotations

import asyncio
import io
import logging
from functools import partial
from typing import Any

from appliance.api import refusals
from appliance.api.database_refusals import refusal_of
from appliance.api.errors import ApplianceError, Code
from appliance.api.problems import refusal_of_missing_row
from appliance.db import change_log
from appliance.db.deleted_rows import is_missing_row
from appliance.db.writer import (
    directory_login_pool,
    login_pool,
    provider_pool,
    renewal_pool,
    request_pool,
    run_in_thread,
    submit_write,
)
from appliance.http.handler import Response, SyncHandler, problem_of, send_response
from appliance.http.internal_headers import EXECUTION_HEADER, SEQUENCE_HEADER, WAIT_HEADER
from appliance.http.request import (
    BodyTooLargeError,
    ClientDisconnectedError,
    Execution,
    header_of,
    read_body,
)

log = logging.getLogger(__name__)

POOLS = {
    Execution.LOGIN: login_pool,
    Execution.DIRECTORY_LOGIN: directory_login_pool,
    Execution.RENEWAL: renewal_pool,
    Execution.PROVIDER: provider_pool,
}
"""Threads of the executions that do not use `request_pool`."""


class ControllerApplication:
    def __init__(self) -> None:
        self._handler = SyncHandler()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = io.BytesIO()
        try:
            await read_body(receive, body)
        except ClientDisconnectedError:
            return
        except BodyTooLargeError:
            await send_response(Response(413, [], b""), send)
            return
        response = await self.respond(scope, body)
        refusals.note(response.refusals)
        headers = [*response.headers, (SEQUENCE_HEADER, b"%d" % change_log.sequence())]
        if response.wait is not None:
            headers.append((WAIT_HEADER, response.wait.to_header().encode()))
        await send_response(Response(response.status, headers, response.body), send)

    async def respond(self, scope: dict[str, Any], body: io.BytesIO) -> Response:
        try:
            execution = Execution(header_of(scope, EXECUTION_HEADER))
            if execution is Execution.INLINE_WRITE:
                write = submit_write(
                    partial(self._handler.respond_in_transaction, scope, body.getvalue())
                )
                return await asyncio.wrap_future(write)
            threads = POOLS.get(execution, request_pool)
            return await run_in_thread(partial(self._handler.respond, scope, body), threads)
        except Exception as error:
            if refused := refusal_of(error):
                return problem_of(refused)
            if is_missing_row(error):
                return problem_of(ApplianceError(*refusal_of_missing_row(error, scope["method"])))
            log.exception("controller: %s %s failed", scope["method"], scope["path"])
            return problem_of(
                ApplianceError(Code.INTERNAL, "The request failed; see the appliance's log.")
            )
