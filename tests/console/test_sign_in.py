"""Sign-in in Chromium: second factor, recovery codes, and the approval of a device."""

from __future__ import annotations

import re
import time
from base64 import b32decode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from appliance.signin import totp
from deploy.ports import free_port
from tests.appliance import identity_provider
from tests.appliance.appliance_process import PASSWORD, ApplianceProcess, started
from tests.console.pictures import picture
from tests.ports import port

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    with started(tmp_path_factory.mktemp("appliance"), BUSBAR_SECOND_FACTOR="required") as running:
        yield running


def code_of(secret: str) -> str:
    padded = secret + "=" * (-len(secret) % 8)
    return totp.code_at(b32decode(padded), int(time.time()) // totp.STEP_SECONDS)


def enter_password(page: Page, password: str) -> None:
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()


def enter_code(page: Page, code: str) -> None:
    page.get_by_role("textbox", name="Code", exact=True).fill(code)
    page.get_by_role("button", name="Sign in").click()


def save_recovery_codes(page: Page) -> str:
    """Return the first of the recovery codes that the page shows, and close them."""
    expect(page.get_by_role("button", name="I have saved them")).to_be_visible()
    codes = re.findall(r"(?:\w{4}-){3}\w{4}", page.content())
    page.get_by_role("button", name="I have saved them").click()
    return str(codes[0])


def test_required_factor_is_set_up_and_used(
    page: Page, appliance: ApplianceProcess, screenshots: Path
) -> None:
    one_time = (appliance.data / "initial-admin-password").read_text().strip()
    page.goto(appliance.url)
    picture(page, screenshots, "sign-in")
    enter_password(page, one_time)
    expect(page.get_by_role("img", name="QR code of the secret")).to_be_visible()
    picture(page, screenshots, "set-up")
    secret = page.get_by_label("Secret, to type instead").input_value()
    page.get_by_label("New password").fill(PASSWORD)
    enter_code(page, "000000")
    expect(page.get_by_text("Wrong code. Try the next one.")).to_be_visible()
    enter_code(page, code_of(secret))
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    picture(page, screenshots, "recovery-codes")
    recovery = save_recovery_codes(page)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    page.goto(f"{appliance.url}/account")
    expect(page.get_by_text("10 recovery codes left.")).to_be_visible()
    expect(page.get_by_role("button", name="Turn off")).to_have_count(0)
    picture(page, screenshots, "account")
    page.get_by_role("button", name="New recovery codes").click()
    fresh = save_recovery_codes(page)
    page.get_by_role("button", name="admin").click()
    page.get_by_role("menuitem", name="Sign out").click()

    enter_password(page, PASSWORD)
    enter_code(page, recovery)
    expect(page.get_by_text("Wrong code.")).to_be_visible()
    picture(page, screenshots, "code")
    enter_code(page, fresh)
    expect(page.get_by_role("heading", name="My account")).to_be_visible()

    approve_a_device(page, appliance, screenshots)


def approve_a_device(page: Page, appliance: ApplianceProcess, screenshots: Path) -> None:
    with httpx.Client(base_url=appliance.url, verify=appliance.context, timeout=60) as device:
        begun = device.post("/api/v1/device-logins", json={"client": "render-7"}).json()
        page.goto(appliance.url + begun["approval_path"])
        page.get_by_role("textbox", name=re.compile("^Code")).fill("BBBB-BBBB")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("No sign-in waits with this code.")).to_be_visible()
        page.get_by_role("textbox", name=re.compile("^Code")).fill(begun["code"].lower())
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("render-7")).to_be_visible()
        expect(page.get_by_text("127.0.0.1")).to_be_visible()
        picture(page, screenshots, "approve")
        page.get_by_role("button", name="Approve: sign it in as admin").click()
        expect(page.get_by_text("The device is signed in.")).to_be_visible()
        body = {"device_code": begun["device_code"]}
        taken = device.post("/api/v1/device-logins/token", json=body).json()
        assert taken["username"] == "admin"


def test_sign_in_page_speaks_chinese(
    page: Page, appliance: ApplianceProcess, screenshots: Path
) -> None:
    page.goto(appliance.url)
    page.evaluate("localStorage.setItem('busbar.language', 'zh')")
    page.reload()
    expect(page.get_by_role("button", name="登录")).to_be_visible()
    picture(page, screenshots, "sign-in-zh")


def test_person_signs_in_with_an_identity_provider(
    page: Page, tmp_path: Path, screenshots: Path
) -> None:
    https_port = free_port(port(800), "127.0.0.1")  # as the appliance chooses it
    return_address = f"https://127.0.0.1:{https_port}/sign-in"
    with identity_provider.started(tmp_path / "provider", return_address) as provider:
        settings = f"[{provider.settings.model_dump_json()}]"
        (tmp_path / "appliance").mkdir()
        with started(tmp_path / "appliance", BUSBAR_OIDC_PROVIDERS=settings) as appliance:
            assert appliance.https_port == https_port
            page.goto(appliance.url)
            expect(page.get_by_role("button", name="Sign in with Example Org")).to_be_visible()
            picture(page, screenshots, "providers")
            page.get_by_role("button", name="Sign in with Example Org").click()
            page.locator("input[name=login]").fill("p-1")
            page.locator("input[name=password]").fill("x")
            page.locator("button[type=submit]").click()
            page.get_by_role("button", name="Continue").click()
            expect(page.get_by_role("button", name="heidi")).to_be_visible()
            assert "code=" not in page.url and "/sign-in" not in page.url
            page.goto(f"{appliance.url}/account")
            expect(page.get_by_text("the identity provider")).to_be_visible()
            page.goto(f"{return_address}?error=access_denied&error_description=Not+today")
            expect(page.get_by_text("refused the sign-in (access_denied)")).to_be_visible()
            expect(page.get_by_text("Not today")).to_have_count(0)
            picture(page, screenshots, "provider-refused")
