"""Networks of API tokens, and the record of their last use, at every door of the appliance."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import websockets
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from websockets.exceptions import ConnectionClosed

from appliance.accounts import token_uses
from appliance.accounts.models import ApiToken, User
from appliance.accounts.services import token_create
from appliance.accounts.token_networks import covers, includes, normalized
from tests.appliance.appliance_process import STRANGER, ApplianceProcess, started
from tests.appliance.conftest import Cast, body
from tests.load.http import HttpError
from tests.tokens import create_token

Clients = Callable[[User | None], Any]
HOME = "127.0.0.1"


@pytest.mark.parametrize(
    ("networks", "address", "expected"),
    [
        ([], "192.0.2.1", True),
        (["10.0.0.0/8", "192.0.2.0/24"], "192.0.2.1", True),
        (["10.0.0.0/8"], "11.0.0.1", False),
        (["10.0.0.0/8"], "::ffff:10.1.2.3", True),
        (["2001:db8::/32"], "2001:db8:1::1", True),
        (["2001:db8::/32"], "2001:db9::1", False),
        (["0.0.0.0/0"], "2001:db8::1", False),
        (["fe80::/10"], "fe80::1%eth0", True),
        (["0.0.0.0/0", "::/0"], "", False),
    ],
)
def test_address_is_compared_with_networks(
    networks: list[str], address: str, expected: bool
) -> None:
    assert includes(networks, address) is expected


def test_networks_cover_only_their_parts() -> None:
    assert covers([], ["0.0.0.0/0"]) and covers(["10.0.0.0/8", "::/0"], ["10.1.0.0/16", "::1/128"])
    assert not covers(["10.0.0.0/8"], ["10.1.0.0/16", "11.0.0.0/16"])
    assert not covers(["::/0"], ["10.0.0.0/8"]) and not covers(["10.1.0.0/16"], ["10.0.0.0/8"])


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "host", "", "fe80::1%eth0/128"])
def test_malformed_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        normalized(text)


@pytest.mark.django_db
def test_malformed_network_of_a_request_is_named(cast: Cast, client_of: Clients) -> None:
    wanted = {"name": "x", "networks": ["10.0.0.0/8", "10.0.0.1/8"]}
    refused = client_of(cast.alice).post("/api/v1/tokens", wanted, format="json")
    assert refused.status_code == 400
    assert [e["pointer"] for e in body(refused)["errors"]] == ["/networks/1"]
    wanted["networks"] = ["10.0.0.7", "2001:DB8::/32"]
    made = body(client_of(cast.alice).post("/api/v1/tokens", wanted, format="json"))
    assert made["networks"] == ["10.0.0.7/32", "2001:db8::/32"]


def request(
    appliance: ApplianceProcess,
    source: str,
    method: str,
    path: str,
    token: str,
    content: Any = None,
) -> Any:
    """Return the JSON of a response, or the problem of a refused request."""
    headers = {"Authorization": f"Bearer {token}"}
    client = appliance.client(source)
    try:
        return asyncio.run(client.request(method, f"/api/v1/{path}", headers=headers, body=content))
    except HttpError as error:
        return str(error)


async def feed_reply(appliance: ApplianceProcess, source: str, token: str) -> tuple[Any, ...]:
    """Return the type of the first message of the feed, or code and reason of its close."""
    url = appliance.url.replace("https", "wss") + "/api/v1/feed"
    async with websockets.connect(
        url, ssl=appliance.context, local_addr=(source, 0), compression=None
    ) as socket:
        await socket.send(json.dumps({"type": "hello", "token": token}))
        try:
            return (json.loads(await socket.recv())["type"],)
        except ConnectionClosed as closed:
            assert closed.rcvd is not None
            return closed.rcvd.code, closed.rcvd.reason


async def watch_status(appliance: ApplianceProcess, source: str, token: str) -> int:
    reader, writer = await asyncio.open_connection(
        HOME, appliance.https_port, ssl=appliance.context, local_addr=(source, 0)
    )
    head = f"GET /api/v1/watch HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


def check_every_door(appliance: ApplianceProcess, full: str) -> str:
    """Check a token of HOME at every door, from HOME and from STRANGER, and return its text."""
    wanted = {"name": "ci", "networks": [HOME, "::1"]}
    token: str = request(appliance, STRANGER, "POST", "tokens", full, wanted)["token"]
    bulk = {"operations": [{"method": "GET", "path": "me"}]}
    for _ in range(2):  # also once the token is known to both processes
        for method, path, content in (
            ("GET", "me", None),
            ("POST", "tokens", {"name": "more"}),
            ("POST", "bulk", bulk),
        ):
            refused = request(appliance, STRANGER, method, path, token, content)
            assert "403" in refused and "token_network" in refused, (method, path, refused)
            assert isinstance(request(appliance, HOME, method, path, token, content), dict)
        assert asyncio.run(feed_reply(appliance, STRANGER, token)) == (4401, "token_network")
        assert asyncio.run(feed_reply(appliance, HOME, token)) == ("hello",)
        assert asyncio.run(watch_status(appliance, STRANGER, token)) == 403
        assert asyncio.run(watch_status(appliance, HOME, token)) == 200
    assert asyncio.run(feed_reply(appliance, STRANGER, "invalid"))[0] == 4401
    await_audited_refusal(appliance, full)
    return token


def await_audited_refusal(appliance: ApplianceProcess, full: str) -> None:
    """Wait until the audit shows that the feed has refused a token."""
    path = "audit?outcome=refused&action=feed"
    end = time.monotonic() + 120
    while not (rows := request(appliance, STRANGER, "GET", path, full)["items"]):
        assert time.monotonic() < end, "the audit shows no refusal of the feed"
    assert [(r["code"], r["address"]) for r in rows] == [("unauthenticated", STRANGER)]


def test_doors_refuse_other_networks_and_the_last_use_is_stored_when_the_appliance_stops(
    tmp_path: Path,
) -> None:
    begin = int(time.time() // 60) * 60
    with started(tmp_path) as appliance:
        writer = create_token(appliance.data)
        reader = check_every_door(appliance, writer)
        appliance.process.send_signal(signal.SIGTERM)
        assert appliance.process.wait(120) == 0
        rows = sqlite3.connect(appliance.data / "control.db").execute(
            "SELECT id, last_used_address, unixepoch(last_used_at) FROM accounts_apitoken"
        )
        found = {token_id: use for token_id, *use in rows}
    for token, source in ((reader, HOME), (writer, STRANGER)):
        address, at = found[token.removeprefix("bb_").partition(".")[0]]
        assert address == source and begin <= at <= time.time() and at % 60 == 0


@pytest.mark.django_db
def test_use_of_a_token_costs_no_query_and_is_stored_with_its_address(
    cast: Cast, client_of: Clients
) -> None:
    token, text = token_create(user=cast.alice, name="x")
    client = client_of(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}", REMOTE_ADDR="2001:db8::7")
    client.get("/api/v1/roles")
    token_uses.take()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        client.get("/api/v1/roles")
    read = [q["sql"] for q in queries if "apitoken" in q["sql"]]
    # With several appliances on one database, tokens are read for each request.
    assert len(read) == bool(settings.ENVIRONMENT.database), read
    assert all(sql.startswith("SELECT") for sql in read)
    token_uses.flush()
    token.refresh_from_db()
    assert token.last_used_at is not None and token.last_used_address == "2001:db8::7"
    assert token.last_used_at <= timezone.now() and token.last_used_at.second == 0
    shown = body(client.get(f"/api/v1/tokens/{token.pk}"))
    assert shown["last_used_address"] == "2001:db8::7" and shown["last_used_at"]


@pytest.mark.django_db
def test_later_use_is_kept_when_an_earlier_one_arrives(cast: Cast) -> None:
    token, _ = token_create(user=cast.alice, name="x")
    token_uses.store({token.pk: (29_000_001, "192.0.2.2")})
    token_uses.store({token.pk: (29_000_000, "192.0.2.1")})
    assert ApiToken.objects.get(pk=token.pk).last_used_address == "192.0.2.2"
    token_uses.take()
    token_uses.add({token.pk: (29_000_003, "192.0.2.3")})
    token_uses.add({token.pk: (29_000_002, "192.0.2.2")})
    assert token_uses.take()[token.pk] == (29_000_003, "192.0.2.3")
