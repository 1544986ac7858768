"""Streams in the OpenAPI document: the WebSocket, which it does not know, and lines."""

from __future__ import annotations

from typing import Any

WEBSOCKET_PATH = "/api/v1/feed"
DESCRIPTION = """\
Changes of objects and samples of GPUs, as JSON messages over a WebSocket (RFC 6455).

A browser authenticates with the console's cookie and an `Origin` that is the appliance; other
clients with `token` in their first message. A token never stands in the URL.

| From | Message | Meaning |
|---|---|---|
| client | `{"type": "hello", "token": "…", "epoch": "…", "sequence": 1042}` | The first message, \
within 10 s. `epoch` and `sequence` of the last received change resume the feed. |
| appliance | `{"type": "hello", "epoch": "…", "sequence": 1050, "resumed": true, \
"server_seconds": 1764000000.5}` | `resumed` is false if changes were missed: read all objects. |
| client | `{"type": "watch", "gpus": ["ID"]}` | Replaces the GPUs whose samples are sent, at most \
1,024. |
| appliance | `{"type": "changes", "items": [{"sequence": 1051, "kind": "node", "id": "ID", \
"row": {}}]}` | `row` is the object as its list shows it; null if it is gone. |
| appliance | `{"type": "samples", "gpus": {"ID": [[1764000000.5, 40.0, 8589934592, \
61.0, 310.5]]}}` | Samples of watched GPUs: Unix time, utilisation in percent, used memory in \
bytes, temperature in degrees Celsius, power in watts; null if unknown. After `watch` \
the last minutes. |
| appliance | `{"type": "resync", "sequence": 1060}` | The client was too slow: read all objects. |

The appliance closes with 4400 for an invalid message, 4401 for an invalid token (the reason is
`token_network` if it is not valid from the client's address), and 4403 if roles have changed:
connect again. A request without `Upgrade: websocket` and `Connection: Upgrade` gets 404.
"""


def text(example: str) -> dict[str, Any]:
    """Return the content of a response of the HTTP server, which is a line of text."""
    return {"text/plain": {"schema": {"type": "string"}, "example": f"{example}\n"}}


FAILED = "Failed to open a WebSocket connection:"
RESPONSES: dict[str, Any] = {
    "101": {
        "description": "The connection is a WebSocket now. A client without valid credentials "
        "gets this, too: it learns of it by a close code."
    },
    "400": {
        "description": "`Sec-WebSocket-Key` is missing or invalid, or `Sec-WebSocket-Version` is "
        "not 13.",
        "content": text(f"{FAILED} missing Sec-WebSocket-Key header."),
    },
    "404": {"$ref": "#/components/responses/NotFound"},
    "405": {
        "description": "The method is not GET.",
        "content": text(f"{FAILED} unsupported HTTP method: POST."),
    },
    "500": {
        "description": "The appliance is stopping. Connect again.",
        "content": text("Internal Server Error"),
    },
}
"""The HTTP server checks the handshake; the feed accepts every one that is complete."""
WEBSOCKET: dict[str, Any] = {
    "get": {
        "operationId": "feed",
        "summary": "Follow changes and samples over a WebSocket",
        "description": DESCRIPTION,
        "tags": ["feed"],
        "x-websocket": True,
        "parameters": [
            {
                "name": "Upgrade",
                "in": "header",
                "required": True,
                "schema": {"type": "string", "enum": ["websocket"]},
                "description": "Requests the change of the protocol.",
            }
        ],
        "security": [{"token": []}, {"cookie": []}, {}],
        "responses": RESPONSES,
    }
}
STREAM_EXAMPLES = {
    "text/event-stream": """\
id: 5f2c9a0b.1051
event: node
data: {"sequence": 1051, "kind": "node", "id": "0192f0c1-a2b3-7c4d-8e5f-60718293a4b5", "row": {}}

: keep-alive

""",
    "application/x-ndjson": """\
{"sequence": 1042, "hash": "9f86d081…", "actor": "alice", "action": "pools_create"}
""",
}
"""Examples by media type."""
