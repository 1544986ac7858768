"""A forgotten password in Chromium: from the sign-in page, by the mail, to the next sign-in."""

from __future__ import annotations

import re
import time
from base64 import b32decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from appliance.signin import totp
from deploy.supervisor import wait_for
from tests.appliance.appliance_process import ApplianceProcess, started
from tests.appliance.smtp_server import Inbox, smtp_server
from tests.console.pictures import picture
from tests.ports import port

pytestmark = pytest.mark.system
OLD, NEW = "the forgotten password", "fjord-lamp-9031-quilt"


@dataclass
class Person:
    """The user alice, who has a second factor and a token."""

    appliance: ApplianceProcess
    inbox: Inbox
    token: str
    recovery_codes: list[str]

    def status(self) -> int:
        """Return the status of a request with the token."""
        with client(self.appliance, self.token) as rest:
            return rest.get("me").status_code

    def link(self) -> str:
        """Wait for the mail with a link to a new password, and return the link.

        Another mail says that the first sign-in has set a password.
        """
        wait_for("the mail with the link", lambda: bool(self.links()), self.appliance.log)
        return self.links()[0]

    def links(self) -> list[str]:
        text = "\n".join(message.get_content() for message in self.inbox.messages)
        return re.findall(r"https://\S+/new-password#\S+", text)


def client(appliance: ApplianceProcess, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"{appliance.url}/api/v1/",
        verify=appliance.context,
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    )


def post(rest: httpx.Client, path: str, content: Any = None) -> Any:
    response = rest.post(path, json=content)
    assert response.is_success, response.text
    return response.json()


def sign_up(appliance: ApplianceProcess, admin: httpx.Client, inbox: Inbox) -> Person:
    made = post(admin, "users", {"username": "alice", "email": "alice@example.org"})
    post(admin, "role-bindings", {"user": "alice", "role": "viewer"})
    login = {"username": "alice", "password": made["one_time_password"], "new_password": OLD}
    first = post(admin, "login", login)["token"]
    with client(appliance, first) as rest:
        secret = b32decode(post(rest, "second-factor")["secret"])
        code = totp.code_at(secret, int(time.time()) // totp.STEP_SECONDS)
        codes = post(rest, "second-factor/confirmation", {"code": code})["recovery_codes"]
    again = {"username": "alice", "password": OLD, "code": codes[0]}
    return Person(appliance, inbox, post(admin, "login", again)["token"], codes[1:])


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    with started(tmp_path_factory.mktemp("appliance")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(appliance: ApplianceProcess) -> Iterator[httpx.Client]:
    token = appliance.manage("create_token", "--role", "administrator", "--hours", "1")
    with client(appliance, token) as admin:
        yield admin


@pytest.fixture
def alice(
    tmp_path: Path, page: Page, appliance: ApplianceProcess, admin: httpx.Client
) -> Iterator[Person]:
    with smtp_server(tmp_path, port(96), "tls") as (inbox, mail):
        page.goto(appliance.url)
        expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
        expect(page.get_by_role("link", name="Forgotten password")).to_have_count(0)
        change_mail(admin, mail)
        yield sign_up(appliance, admin, inbox)
        change_mail(admin, {"host": ""})
        (user,) = admin.get("users", params={"username": "alice"}).json()["items"]
        assert admin.delete(f"users/{user['id']}").is_success


def change_mail(admin: httpx.Client, mail: dict[str, Any]) -> None:
    changed = admin.patch("settings", json={"mail": mail})
    assert changed.is_success, changed.text


def ask_for_a_code(page: Page, url: str, folder: Path) -> None:
    page.goto(url)
    expect(page.get_by_role("link", name="Forgotten password")).to_be_visible()
    picture(page, folder, "new-password-sign-in")
    page.get_by_role("link", name="Forgotten password").click()
    expect(page.get_by_text("A code is sent to the address of your account.")).to_be_visible()
    picture(page, folder, "new-password-ask")
    page.get_by_label("User name").fill("alice")
    page.get_by_role("button", name="Send a code").click()
    expect(page.get_by_text("If this account exists and has an address")).to_be_visible()
    picture(page, folder, "new-password-sent")


def set_password(page: Page, password: str) -> None:
    page.get_by_label("New password").fill(password)
    page.get_by_role("button", name="Set the password").click()


def sign_in(page: Page, recovery_code: str) -> None:
    page.get_by_label("User name").fill("alice")
    page.get_by_label("Password", exact=True).fill(NEW)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("textbox", name="Code", exact=True).fill(recovery_code)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_person_with_a_forgotten_password_sets_another_one_and_signs_in(
    page: Page, alice: Person, screenshots: Path
) -> None:
    url = alice.appliance.url
    ask_for_a_code(page, url, screenshots)
    link = alice.link()
    page.goto(link)
    expect(page).to_have_url(f"{url}/new-password")  # the code is not in the history
    expect(page.get_by_label("User name")).to_have_value("alice")
    set_password(page, "short")
    expect(page.get_by_text("This password is too short.")).to_be_visible()
    expect(page.get_by_role("link", name="Ask for another code")).to_have_count(0)
    picture(page, screenshots, "new-password-refused")
    assert alice.status() == 200
    set_password(page, NEW)
    expect(page.get_by_text("The password is set.")).to_be_visible()
    picture(page, screenshots, "new-password-set")
    assert alice.status() == 401
    page.get_by_role("link", name="Back to the sign-in").click()
    sign_in(page, alice.recovery_codes[0])
    assert link.rpartition("code=")[2] not in alice.appliance.log.read_text()


def test_used_link_leads_to_another_code(page: Page, alice: Person, screenshots: Path) -> None:
    ask_for_a_code(page, alice.appliance.url, screenshots)
    link = alice.link()
    page.goto(link)
    set_password(page, NEW)
    expect(page.get_by_text("The password is set.")).to_be_visible()
    page.evaluate("localStorage.setItem('busbar.language', 'zh')")
    page.goto(link)
    page.get_by_label("新密码").fill("one that comes too late")
    page.get_by_role("button", name="设置密码").click()
    expect(page.get_by_role("link", name="重新获取代码")).to_be_visible()
    picture(page, screenshots, "new-password-used")
    page.get_by_role("link", name="重新获取代码").click()
    expect(page.get_by_role("button", name="发送代码")).to_be_visible()
    picture(page, screenshots, "new-password-ask-zh")
