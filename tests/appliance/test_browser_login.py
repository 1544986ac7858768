"""Console sign-in by cookie: attributes of the cookie, origin checks, sign-out."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from rest_framework.test import APIClient

from appliance.accounts.authentication import CONSOLE_COOKIE
from tests.appliance.conftest import Cast, body

OWN_ORIGIN, FOREIGN_ORIGIN = "https://testserver", "https://elsewhere.example"
LOGIN = "/api/v1/browser-login"


@pytest.fixture
def browser(cast: Cast) -> APIClient:
    cast.olga.password = make_password("correct horse battery")
    cast.olga.save()
    return APIClient()


def login(browser: APIClient, origin: str | None = OWN_ORIGIN, **changes: Any) -> Any:
    headers: dict[str, Any] = {"HTTP_ORIGIN": origin} if origin else {}
    return browser.post(
        LOGIN,
        {"username": "olga", "password": "correct horse battery"} | changes,
        format="json",
        secure=True,
        **headers,
    )


def test_login_sets_an_http_only_cookie_and_returns_no_token(browser: APIClient) -> None:
    response = login(browser)
    cookie = response.cookies[CONSOLE_COOKIE]
    assert (
        response.status_code == 200
        and body(response)["username"] == "olga"
        and "token" not in body(response)
    )
    assert (
        cookie["httponly"]
        and cookie["secure"]
        and cookie["samesite"] == "Strict"
        and cookie["path"] == "/"
        and not cookie["domain"]
    )
    assert body(browser.get("/api/v1/me", secure=True))["username"] == "olga"


@pytest.mark.parametrize(
    "origin",
    [FOREIGN_ORIGIN, None, "null", "https://testserver.elsewhere.example", "http://testserver"],
)
def test_foreign_origin_can_neither_log_in_nor_use_unsafe_methods(
    browser: APIClient, origin: str | None
) -> None:
    assert login(browser, origin).status_code == 403 and CONSOLE_COOKIE not in browser.cookies
    assert login(browser).status_code == 200
    headers: dict[str, Any] = {"HTTP_ORIGIN": origin} if origin else {}
    assert (
        browser.post(
            "/api/v1/pools", {"name": "theirs"}, format="json", secure=True, **headers
        ).status_code
        == 403
    )
    assert (
        browser.post(
            "/api/v1/pools", {"name": "ours"}, format="json", secure=True, HTTP_ORIGIN=OWN_ORIGIN
        ).status_code
        == 201
    )


def test_wrong_or_one_time_password_sets_no_cookie(browser: APIClient, cast: Cast) -> None:
    assert (
        login(browser, password="wrong").status_code == 401
        and CONSOLE_COOKIE not in browser.cookies
    )
    cast.olga.must_change_password = True
    cast.olga.save()
    response = login(browser)
    assert body(response)["must_change_password"] is True and CONSOLE_COOKIE not in browser.cookies
    assert (
        login(browser, new_password="a longer one of my own").status_code == 200
        and CONSOLE_COOKIE in browser.cookies
    )


def test_logout_revokes_the_token(browser: APIClient) -> None:
    stored = login(browser).cookies[CONSOLE_COOKIE].value
    assert browser.delete(LOGIN, secure=True, HTTP_ORIGIN=OWN_ORIGIN).status_code == 204
    stolen = APIClient()
    stolen.cookies[CONSOLE_COOKIE] = stored
    assert stolen.get("/api/v1/me", secure=True).status_code == 401


def test_every_response_has_the_content_security_policy(browser: APIClient) -> None:
    for path in ("/", "/nodes/x", "/api/v1/me", "/healthz", "/static/none"):
        assert "default-src 'self'" in browser.get(path)["Content-Security-Policy"], path
