"""GET /api/v1/watch: changes as server-sent events, resumed without loss."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from remoting.cli.api import ApiError
from tests.remoting.node import EVENT_SECONDS
from tests.system.conftest import Pool

pytestmark = pytest.mark.system


class Stream:
    def __init__(self, response: httpx.Response) -> None:
        self.response, self.lines = response, response.iter_lines()

    def next(self, kind: str) -> tuple[str, dict[str, Any]]:
        """Return id and data of the next event of this kind. Raises EOFError at the end."""
        fields: dict[str, str] = {}
        for line in self.lines:
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if fields.get("event") == kind:
                return fields.get("id", ""), json.loads(fields["data"])
            fields = {}
        raise EOFError


@contextmanager
def watching(pool: Pool, token: str, **query: str) -> Iterator[Stream]:
    context = ssl.create_default_context(cafile=str(pool.stack.appliance_data / "ca.pem"))
    url = f"{pool.stack.url}/api/v1/watch"
    with httpx.stream(
        "GET",
        url,
        params=query,
        headers={"Authorization": f"Bearer {token}"},
        verify=context,
        timeout=EVENT_SECONDS,
        trust_env=False,
    ) as response:
        if response.status_code != 200:
            raise ApiError(response.read().decode(), response.status_code)
        yield Stream(response)


def test_resumed_stream_contains_all_missed_changes(pool: Pool) -> None:
    token = pool.token("watch-operator", "operator")
    names = [f"watched-{time.time_ns()}-{i}" for i in range(3)]
    with watching(pool, token) as one, watching(pool, token, kinds="event") as other:
        one.next("hello")
        other.next("hello")
        pool.api.request("POST", "pools", {"name": names[0]})
        at, change = one.next("event")
        assert (
            change["row"]["kind"] == "pool.created"
            and names[0] in change["row"]["message"]
            and at.endswith(f".{change['sequence']}")
        )
        with watching(pool, token, kinds="event", since=at) as again:
            assert again.next("hello")[0] == at, "hello must repeat the id of the resume position"
        for name in names[1:]:
            pool.api.request("POST", "pools", {"name": name})
        for name in names:
            assert name in other.next("event")[1]["row"]["message"]
        with watching(pool, token, kinds="event", since=at) as again:
            assert [
                name for name in names[1:] if name in again.next("event")[1]["row"]["message"]
            ] == names[1:]


def test_stream_closed_before_first_change_resumes_without_loss(pool: Pool) -> None:
    token, names = (
        pool.token("watch-operator", "operator"),
        [f"unbroken-{time.time_ns()}-{i}" for i in range(2)],
    )
    with watching(pool, token, kinds="event") as one:
        at, _ = one.next("hello")
    for name in names:  # without a subscriber
        pool.api.request("POST", "pools", {"name": name})
    for _ in range(2):
        with watching(pool, token, kinds="event", since=at) as again:
            at, _ = again.next("hello")
    with watching(pool, token, kinds="event", since=at) as again:
        for name in names:
            assert name in again.next("event")[1]["row"]["message"]


def test_stream_from_the_position_of_before_a_change_contains_the_change(pool: Pool) -> None:
    """A client that reads the position, then the objects, then watches misses nothing."""
    token, node = pool.token("watch-operator", "operator"), pool.api.items("nodes")[0]["id"]
    with watching(pool, token, kinds="node") as first:  # changes are kept while there is a stream
        first.next("hello")
        position = pool.api.request("GET", "me")["feed_position"]
        pool.api.request("POST", f"nodes/{node}/cordon")
        try:
            while first.next("node")[1]["row"]["state"] != "cordoned":
                pass
            with watching(pool, token, kinds="node", since=position) as late:
                assert late.next("node")[1]["row"]["state"] == "cordoned"
        finally:
            pool.api.request("POST", f"nodes/{node}/uncordon")


def test_expired_or_invalid_query_is_rejected(pool: Pool) -> None:
    token = pool.token("watch-operator", "operator")
    for query, status, code in (
        ({"since": "0123456789abcdef.5"}, 410, "gone"),
        ({"since": "x"}, 400, "invalid"),
        ({"kinds": "colour"}, 400, "invalid"),
        ({"colour": "red"}, 400, "invalid"),
    ):
        with pytest.raises(ApiError) as refused, watching(pool, token, **query):
            pass
        assert refused.value.exit_code == status and f'"code":"{code}"' in str(
            refused.value
        ).replace(": ", ":")


def test_stream_ends_after_token_is_revoked(pool: Pool) -> None:
    token = pool.token("watch-leaver", "operator")
    context = ssl.create_default_context(cafile=str(pool.stack.appliance_data / "ca.pem"))
    with watching(pool, token) as stream:
        stream.next("hello")
        headers = {"Authorization": f"Bearer {token}"}
        assert (
            httpx.delete(
                f"{pool.stack.url}/api/v1/browser-login",
                headers=headers,
                verify=context,
                trust_env=False,
            ).status_code
            == 204
        )
        with pytest.raises(EOFError):
            stream.next("never")
