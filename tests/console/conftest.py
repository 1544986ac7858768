"""Fixtures: a stack for the console tests and a signed-in page in Chromium."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from deploy.supervisor import BUILD, ROOT
from tests.ports import port
from tests.remoting.conftest import compiled  # noqa: F401
from tests.remoting.node import EVENT_SECONDS
from tests.system.conftest import Pool, started

CHROMIUM = shutil.which("chromium-headless-shell") or "/usr/bin/chromium"
"""With windows, which the other one has without showing them, a page costs three times as much."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Else Chromium itself stops the attacks of test_hostile_web.py, which come from routed pages.
    "--disable-features=LocalNetworkAccessChecks",
]
COOKIE = "__Host-busbar"
DEMO = str(BUILD / "demo" / "gpu_demo")
AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
PASSWORD = "fjord-lamp-9031-quilt"
WORK_SECONDS = 600
"""Longer than any test: it ends the program, or the fixture `pool` does."""
PAUSE_MS = 1000
"""Pause of a program that a page shows: it leaves the processors to the browser."""

EVENT_MS = 1000 * EVENT_SECONDS
NewContext = Callable[[], BrowserContext]
NAVIGATE = """([path, limit]) => new Promise((rendered, failed) => {
  setTimeout(failed, limit, new Error(`${path} was not rendered`));
  const unsubscribe = window.__TSR_ROUTER__.subscribe("onRendered", () => {
    unsubscribe();
    rendered();
  });
  history.pushState(null, "", path);
})"""

expect.set_options(timeout=EVENT_MS)


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


@pytest.fixture
def new_context(new_context: NewContext) -> NewContext:
    """Return a function that makes contexts whose actions and pages have the limit EVENT_MS."""

    def make() -> BrowserContext:
        context = new_context()
        context.set_default_timeout(EVENT_MS)
        return context

    return make


@pytest.fixture(scope="package")
def console_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    # The default lease applies: heartbeats of the page must be sufficient to renew it.
    with started(tmp_path_factory.mktemp("console"), port(700)) as pool:
        # Tests wait for alarms that are raised and cleared, each at the next evaluation.
        pool.api.request("PATCH", "settings", {"alarms": {"interval_seconds": 1}})
        yield pool


@pytest.fixture
def pool(console_pool: Pool) -> Iterator[Pool]:
    yield console_pool
    console_pool.settle()


@dataclass
class Console:
    """A page with a signed-in user, and the errors that it logged."""

    page: Page
    url: str
    token: str
    """Token of the signed-in user."""
    errors: list[str] = field(default_factory=list)

    def open(self, path: str = "/") -> None:
        """Open a path and block until the feed is connected."""
        self.page.goto(self.url + path)
        expect(self.page.get_by_text("live", exact=True)).to_be_visible()

    def navigate(self, path: str) -> None:
        """Go to a path as a link does, without a load; block until its page is rendered.

        A page that has not been shown before still fetches its code and its lists.
        """
        self.page.evaluate(NAVIGATE, [path, EVENT_MS])
        expect(self.page.get_by_label("Loading", exact=True)).to_have_count(0)

    def violations(self, *rules: str) -> list[str]:
        """Return the accessibility violations on the page: of the named rules, or of all."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if rules:
            options["runOnly"] = {"type": "rule", "values": list(rules)}
        found = self.page.evaluate(
            "async options => (await axe.run(document, options)).violations", options
        )
        return [
            f"{v['id']}: {n['target']} {n.get('failureSummary', '')[:300]}"
            for v in found
            for n in v["nodes"]
        ]


def start_program(pool: Pool, percent: int, pause_ms: int = PAUSE_MS) -> subprocess.Popen[str]:
    """Start a program that works while a page shows it."""
    return pool.start_working(percent, WORK_SECONDS, pause_ms)


def sign_in(context: BrowserContext, pool: Pool, role: str) -> Console:
    """Return a page signed in, by the cookie that a login sets, as the user named like the role.

    All pages of a role have one token.
    """
    token = pool.token(role, role)
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
        "console", lambda m: console.errors.append(m.text) if m.type == "error" else None
    )
    console.page.on("pageerror", lambda e: console.errors.append(str(e)))
    return console


@pytest.fixture
def console(context: BrowserContext, pool: Pool) -> Iterator[Console]:
    """Return an administrator's page, with nothing open yet."""
    console = sign_in(context, pool, "administrator")
    yield console
    assert console.errors == []


@pytest.fixture
def viewer(context: BrowserContext, pool: Pool) -> Iterator[Console]:
    """Return a viewer's page, with nothing open yet."""
    console = sign_in(context, pool, "viewer")
    yield console
    assert console.errors == []


@pytest.fixture
def screenshots() -> Path:
    """Folder for screenshots; it is kept after the tests for inspection."""
    folder = ROOT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
