"""Cookies of this appliance among those of other applications, in each place that reads one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from appliance.accounts import device_cookie
from appliance.accounts.authentication import CONSOLE_COOKIE
from appliance.accounts.models import User
from appliance.activity.consumers import FeedConsumer
from appliance.api.request_cookie import cookie_in
from appliance.http.request import token_text_of
from tests.appliance.conftest import Cast

HOST = "appliance:8443"
FOREIGN = [
    b"a/b=1",
    b"a[b]=1",
    b'{"j":1}=1',
    b"a=\xe9",
    b"\xff",
    b"=",
    b"",
    *(
        character.encode(encoding) + b"__Host-busbar=evil"
        for character, encoding in (
            ("\u2000", "utf-8"),
            ("\u0085", "utf-8"),
            ("\u00a0", "utf-8"),
            ("\u0085", "latin-1"),
            ("\u00a0", "latin-1"),
            ("\x1f", "latin-1"),
        )
    ),
    b"__host-busbar=evil",
    b"x__Host-busbar=evil",
]
Read = Callable[[bytes], str]
Clients = Callable[[User | None], Any]


def by_request(cookie: bytes) -> str:
    return token_text_of({"headers": [(b"host", HOST.encode()), (b"cookie", cookie)]})


def by_feed(cookie: bytes) -> str:
    async def send(message: dict[str, Any]) -> None:
        pass

    async def read() -> str:
        origin = (b"origin", f"https://{HOST}".encode())
        feed = FeedConsumer()
        feed.scope = {"headers": [(b"host", HOST.encode()), origin, (b"cookie", cookie)]}
        feed.base_send = send
        await feed.connect()
        assert feed.hello_timeout is not None
        feed.hello_timeout.cancel()
        return feed.token_text

    return asyncio.run(read())


def by_django(cookie: bytes) -> str:
    return cookie_in({"HTTP_COOKIE": cookie.decode("latin-1")}, CONSOLE_COOKIE)


@pytest.mark.django_db
def test_rest_takes_the_cookie_of_exactly_this_name(cast: Cast, client_of: Clients) -> None:
    token = client_of(cast.alice)._credentials["HTTP_AUTHORIZATION"].partition(" ")[2]
    cookies = f"\xa0{CONSOLE_COOKIE}=evil; {CONSOLE_COOKIE}={token}; \xa0{CONSOLE_COOKIE}=evil"
    response = APIClient().get("/api/v1/me", HTTP_COOKIE=cookies)
    assert response.status_code == 200 and response.json()["username"] == "alice"


@pytest.mark.parametrize("read", [by_request, by_feed, by_django])
@pytest.mark.parametrize("foreign", FOREIGN)
def test_cookies_of_others_neither_hide_nor_replace_the_console_cookie(
    foreign: bytes, read: Read
) -> None:
    own = f"{CONSOLE_COOKIE}=good".encode()
    assert read(foreign + b"; " + own) == read(own + b"; " + foreign) == "good"
    assert read(foreign) == ""


@pytest.mark.parametrize("read", [by_request, by_feed, by_django])
@pytest.mark.parametrize(
    ("header", "value"),
    [
        (b"__Host-busbar=good; __Host-busbar=evil", "good"),
        (b'a=1;\t__Host-busbar \t= "good" ;b=2', "good"),
        (b'__Host-busbar="g\\"\\157d"', 'g"od'),
        (b"__Host-busbar=a=b", "a=b"),
        (b"__Host-busbar", ""),
    ],
)
def test_value_is_the_first_of_its_name_without_quotes(
    header: bytes, value: str, read: Read
) -> None:
    assert read(header) == value


@pytest.mark.parametrize("foreign", FOREIGN)
def test_cookies_of_others_do_not_hide_the_device_cookie(foreign: bytes) -> None:
    own = device_cookie.set_cookie_header("ada").partition(";")[0].encode()
    assert device_cookie.device_id([(b"cookie", foreign + b"; " + own)], "ada") is not None
