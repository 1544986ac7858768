"""A stack of its own, and Debian's Chromium in front of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from deploy.supervisor import BUILD, ROOT
from tests.remoting.conftest import compiled  # noqa: F401
from tests.system.conftest import Pool, started

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
COOKIE = "__Host-busbar"
DEMO = str(BUILD / "demo" / "gpu_demo")
AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
PASSWORD = "fjord-lamp-9031-quilt"


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    return {"executable_path": CHROMIUM, "args": FLAGS}


@pytest.fixture(scope="session")
def browser_context_args() -> dict[str, Any]:
    return {
        "ignore_https_errors": True,
        "viewport": {"width": 1440, "height": 900},
        "locale": "en-GB",
    }


@pytest.fixture(scope="session")
def pool_of_the_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    held = os.environ.pop(
        "BUSBAR_HOLD_SECONDS", None
    )  # the default: the page's own heartbeat must suffice
    with started(tmp_path_factory.mktemp("console"), 38443) as pool:
        yield pool
    if held is not None:
        os.environ["BUSBAR_HOLD_SECONDS"] = held


@pytest.fixture
def pool(pool_of_the_console: Pool) -> Iterator[Pool]:
    yield pool_of_the_console
    pool_of_the_console.settle()


@dataclass
class Console:
    """A browser that is signed in, and all that its page complained about."""

    page: Page
    url: str
    token: str
    """Of the signed-in user."""
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str = "/") -> None:
        self.page.goto(self.url + path)
        expect(self.page.get_by_text("live", exact=True)).to_be_visible()

    def violations(self) -> list[str]:
        """What axe finds on the page as it stands."""
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate(
            "async () => (await axe.run(document, { resultTypes: ['violations'] })).violations"
        )
        return [
            f"{v['id']}: {n['target']} {n.get('failureSummary', '')[:300]}"
            for v in found
            for n in v["nodes"]
        ]


def signed_in(context: BrowserContext, pool: Pool, role: str) -> Console:
    """With a cookie such as the login sets."""
    token = pool.stack.manage(
        "create_token", "--user", role, "--role", role, "--hours", "1"
    ).splitlines()[-1]
    context.add_cookies(
        [
            {
                "name": COOKIE,
                "value": token,
                "url": pool.stack.url,
                "secure": True,
                "httpOnly": True,
                "sameSite": "Strict",
            }
        ]
    )
    console = Console(context.new_page(), pool.stack.url, token)
    console.page.on(
        "console", lambda m: console.complaints.append(m.text) if m.type == "error" else None
    )
    console.page.on("pageerror", lambda e: console.complaints.append(str(e)))
    return console


@pytest.fixture
def console(context: BrowserContext, pool: Pool) -> Iterator[Console]:
    made = signed_in(context, pool, "administrator")
    made.open()
    yield made
    assert made.complaints == []


@pytest.fixture
def viewer(browser: Browser, browser_context_args: dict[str, Any], pool: Pool) -> Iterator[Console]:
    context = browser.new_context(**browser_context_args)
    made = signed_in(context, pool, "viewer")
    made.open()
    yield made
    context.close()


@pytest.fixture
def screenshots() -> Path:
    """Kept, so that a person can look."""
    folder = ROOT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
