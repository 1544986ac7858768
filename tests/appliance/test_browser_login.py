"""The console's cookie: what it opens, and to whose page."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from rest_framework.test import APIClient

from appliance.accounts.authentication import COOKIE
from tests.appliance.conftest import Cast, body

OURS, THEIRS = "https://testserver", "https://elsewhere.example"
LOGIN = "/api/v1/browser-login"


@pytest.fixture
def browser(cast: Cast) -> APIClient:
    cast.olga.password = make_password("correct horse battery")
    cast.olga.save()
    return APIClient()


def login(browser: APIClient, origin: str | None = OURS, **changes: Any) -> Any:
    headers = {"HTTP_ORIGIN": origin} if origin else {}
    return browser.post(
        LOGIN,
        {"username": "olga", "password": "correct horse battery"} | changes,
        format="json",
        secure=True,
        **headers,
    )


def test_a_login_sets_a_cookie_that_scripts_cannot_read(browser: APIClient) -> None:
    answer = login(browser)
    cookie = answer.cookies[COOKIE]
    assert (
        answer.status_code == 200
        and body(answer)["username"] == "olga"
        and "token" not in body(answer)
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
    "origin", [THEIRS, None, "null", "https://testserver.elsewhere.example", "http://testserver"]
)
def test_another_page_can_neither_log_in_nor_change_anything(
    browser: APIClient, origin: str | None
) -> None:
    assert login(browser, origin).status_code == 403 and COOKIE not in browser.cookies
    assert login(browser).status_code == 200
    headers = {"HTTP_ORIGIN": origin} if origin else {}
    assert (
        browser.post(
            "/api/v1/pools", {"name": "theirs"}, format="json", secure=True, **headers
        ).status_code
        == 403
    )
    assert (
        browser.post(
            "/api/v1/pools", {"name": "ours"}, format="json", secure=True, HTTP_ORIGIN=OURS
        ).status_code
        == 201
    )


def test_a_wrong_password_sets_no_cookie_and_a_one_time_password_opens_nothing(
    browser: APIClient, cast: Cast
) -> None:
    assert login(browser, password="wrong").status_code == 401 and COOKIE not in browser.cookies
    cast.olga.must_change_password = True
    cast.olga.save()
    answer = login(browser)
    assert body(answer)["must_change_password"] is True and COOKIE not in browser.cookies
    assert (
        login(browser, new_password="a longer one of my own").status_code == 200
        and COOKIE in browser.cookies
    )


def test_logging_out_ends_the_token_itself(browser: APIClient) -> None:
    kept = login(browser).cookies[COOKIE].value
    assert browser.delete(LOGIN, secure=True, HTTP_ORIGIN=OURS).status_code == 204
    stolen = APIClient()
    stolen.cookies[COOKIE] = kept
    assert stolen.get("/api/v1/me", secure=True).status_code == 401


def test_every_answer_carries_the_content_security_policy(browser: APIClient) -> None:
    for path in ("/", "/nodes/x", "/api/v1/me", "/healthz", "/static/none"):
        assert "default-src 'self'" in browser.get(path)["Content-Security-Policy"], path
