"""Passkeys in Chromium with its virtual authenticator: add, sign in, second factor, remove."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import Browser, CDPSession, Page, Playwright, expect

from tests.appliance.appliance_process import PASSWORD, ApplianceProcess, started
from tests.console.conftest import CHROMIUM, EVENT_MS, FLAGS, Console

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    with started(tmp_path_factory.mktemp("appliance")) as running:
        yield running


@pytest.fixture(scope="module")
def trusting(playwright: Playwright, appliance: ApplianceProcess) -> Iterator[Browser]:
    """A browser that trusts the certificate: it makes no passkeys after a certificate error."""
    pem = (appliance.data / "server.pem").read_bytes()
    key = x509.load_pem_x509_certificate(pem).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pin = base64.b64encode(hashlib.sha256(spki).digest()).decode()
    flags = [*FLAGS, f"--ignore-certificate-errors-spki-list={pin}"]
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
    yield browser
    browser.close()


def add_device(page: Page) -> tuple[CDPSession, str]:
    """Give the page a device that verifies its user. Returns its session and id."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    made: Any = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session, made["authenticatorId"]


def set_domain(appliance: ApplianceProcess) -> None:
    """Choose a password for admin, and the name of passkeys."""
    one_time = (appliance.data / "initial-admin-password").read_text().strip()
    url = f"{appliance.url}/api/v1/"
    with httpx.Client(base_url=url, verify=appliance.context, timeout=60) as client:
        body = {"username": "admin", "password": one_time, "new_password": PASSWORD}
        headers = {"Authorization": f"Bearer {client.post('login', json=body).json()['token']}"}
        wanted = {"sign_in": {"passkey_domain": "localhost"}}
        assert client.patch("settings", json=wanted, headers=headers).status_code == 200


def enter_password(page: Page) -> None:
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def add_passkey(page: Page) -> None:
    """Add the first passkey, with which the user gets recovery codes."""
    page.get_by_role("button", name="Add a passkey").click()
    page.get_by_label("Name of the device").fill("laptop")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("button", name="I have saved them")).to_be_visible()
    assert len(re.findall(r"(?:\w{4}-){3}\w{4}", page.content())) >= 10
    page.get_by_role("button", name="I have saved them").click()
    expect(page.get_by_text("never used")).to_be_visible()


def sign_out(page: Page) -> None:
    page.get_by_role("button", name="admin").click()
    page.get_by_role("menuitem", name="Sign out").click()


def test_passkey_is_added_and_signs_in(
    trusting: Browser, appliance: ApplianceProcess, screenshots: Path
) -> None:
    set_domain(appliance)
    page = trusting.new_context().new_page()
    page.set_default_timeout(EVENT_MS)
    session, device = add_device(page)
    url = f"https://localhost:{appliance.https_port}"
    page.goto(url)
    enter_password(page)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    page.goto(f"{url}/account")
    add_passkey(page)
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Name of the device").fill("old laptop")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("old laptop")).to_be_visible()
    page.screenshot(path=screenshots / "passkeys.png", full_page=True)
    assert Console(page, "", "").violations() == []
    sign_out(page)

    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("heading", name="My account")).to_be_visible()
    expect(page.get_by_text("last used")).to_be_visible()
    sign_out(page)

    enter_password(page)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="My account")).to_be_visible()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_text("never used")).to_have_count(0)
    expect(page.get_by_text("old laptop")).to_have_count(0)
    sign_out(page)

    session.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.locator(".pf-m-danger")).to_be_visible()
