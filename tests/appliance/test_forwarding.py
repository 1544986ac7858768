"""Requests that the HTTP server forwards to the controller over a Unix socket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from appliance.http.forwarding import AppliedSequence, ControllerClient
from appliance.http.handler import Response
from appliance.http.internal_headers import SEQUENCE_HEADER
from appliance.http.request import Execution


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Respond with the received request as JSON."""
    body = (await receive()).get("body", b"")
    received = {
        "method": scope["method"],
        "target": (scope["raw_path"] + b"?" + scope["query_string"]).decode(),
        "headers": [[name.decode(), value.decode()] for name, value in scope["headers"]],
        "body": body.decode(),
    }
    headers = [(SEQUENCE_HEADER, b"0"), (b"Set-Cookie", b"a=1"), (b"Set-Cookie", b"b=2")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(received).encode()})


def forward(folder: Path, scope: dict[str, Any], body: bytes = b"") -> Response | None:
    """Return the response of the echo server to a forwarded request."""

    async def exchange() -> Response | None:
        path = str(folder / "echo.sock")
        config = uvicorn.Config(echo, uds=path, lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        client = ControllerClient(path, AppliedSequence())
        response = await client.forward(scope, body)
        await client.close()
        server.should_exit = True
        await serving
        return response

    return asyncio.run(exchange())


def scope_of(path: bytes, query: bytes, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "method": "PATCH",
        "path": path.decode("latin-1"),
        "raw_path": path,
        "query_string": query,
        "headers": headers,
        "client": ("192.0.2.7", 4711),
        "scheme": "https",
        "execution": Execution.INLINE_WRITE,
    }


def test_target_body_and_headers_arrive_unchanged(tmp_path: Path) -> None:
    sent = [(b"host", b"appliance:8443"), (b"x-one", b"1"), (b"if-match", b'"3"')]
    scope = scope_of(b"/api/v1/a%2Fb/../c", b"q=%20a+b&q=2", sent)

    response = forward(tmp_path, scope, b'{"a": 1}')

    assert response is not None and response.status == 201
    received = json.loads(response.body)
    assert received["method"] == "PATCH"
    assert received["target"] == "/api/v1/a%2Fb/../c?q=%20a+b&q=2"
    assert received["body"] == '{"a": 1}'
    names = {name: value for name, value in received["headers"]}
    assert names["host"] == "appliance:8443" and names["if-match"] == '"3"'
    assert names["x-forwarded-for"] == "192.0.2.7"
    assert names["busbar-execution"] == "inline_write"
    cookies = [value for name, value in response.headers if name == b"set-cookie"]
    assert cookies == [b"a=1", b"b=2"]
    assert not any(name == SEQUENCE_HEADER for name, _ in response.headers)


@pytest.mark.parametrize(
    "name", ["x-forwarded-for", "x-forwarded-proto", "connection", "busbar-execution"]
)
def test_client_cannot_set_internal_headers(tmp_path: Path, name: str) -> None:
    response = forward(tmp_path, scope_of(b"/", b"", [(b"host", b"a"), (name.encode(), b"forged")]))

    assert response is not None
    assert "forged" not in response.body.decode()


def test_bytes_that_are_not_ascii_do_not_fail_the_request(tmp_path: Path) -> None:
    headers = [(b"host", b"a"), (b"cookie", b"\xe9\xff"), (b"x-good", b"yes")]

    response = forward(tmp_path, scope_of(b"/\xc3\xa9", b"", headers))

    assert response is not None and response.status == 201
    received = json.loads(response.body)
    assert received["target"].startswith("/%C3%A9")
    assert ["x-good", "yes"] in received["headers"]


def test_unreachable_controller_gives_no_response(tmp_path: Path) -> None:
    async def exchange() -> Response | None:
        client = ControllerClient(str(tmp_path / "absent.sock"), AppliedSequence())
        try:
            return await client.forward(scope_of(b"/", b"", []), b"")
        finally:
            await client.close()

    assert asyncio.run(exchange()) is None
