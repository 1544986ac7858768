"""An identity provider for tests: npm's oidc-provider, and a browser that signs in there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx

from appliance.environment import OidcProvider
from deploy.ports import free_port
from deploy.supervisor import ROOT, wait_for
from tests.appliance.directory_server import write_certificates
from tests.ports import port

FOLDER = ROOT / "tests" / "identity_provider"
NODE = ROOT / ".venv" / "bin" / "node"
CLIENT_SECRET = "secret of the client"
PEOPLE = {
    "p-1": {"preferred_username": "heidi", "email": "heidi@example.org", "groups": ["gpu", "hr"]},
    "p-2": {"preferred_username": "ivan", "email": "heidi@example.org"},
    "p-3": {"preferred_username": "admin", "email": "admin@example.org"},
}
MAX_REDIRECTS = 10


class IdentityProvider:
    def __init__(self, folder: Path, redirect_uri: str, wrong_by_seconds: int = 0) -> None:
        folder.mkdir(parents=True)
        self.folder, self.redirect_uri = folder, redirect_uri
        self.port = free_port(port(780), "127.0.0.1")
        write_certificates(folder, "127.0.0.1")
        self.set_people(PEOPLE)
        (folder / "secret").write_text(f"{CLIENT_SECRET}\n")
        command = [str(NODE), "server.mjs", str(folder), str(self.port), redirect_uri]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(wrong_by_seconds)],
                cwd=FOLDER,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def set_people(self, people: object) -> None:
        (self.folder / "people.json").write_text(json.dumps(people))

    @property
    def issuer(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def settings(self) -> OidcProvider:
        return OidcProvider(
            id="example",
            name="Example Org",
            issuer=self.issuer,
            client_id="busbar",
            client_secret_file=self.folder / "secret",
            ca=self.folder / "ca.pem",
            groups={"gpu": "gpu-users"},
        )

    def is_ready(self) -> bool:
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self) -> None:
        """End node, too: the process of NODE only starts it. Raises SystemExit if it stays."""
        with contextlib.suppress(ProcessLookupError):  # ended before
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        wait_for("end of the identity provider", lambda: not self.is_ready(), self.folder / "log")

    def sign_in(self, authorization_url: str, person: str) -> dict[str, str]:
        """Sign in as a person in a browser and return the query of the return address."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        with httpx.Client(verify=context, timeout=60) as browser:
            return self._follow(browser, browser.get(authorization_url), person)

    def _follow(
        self, browser: httpx.Client, response: httpx.Response, person: str
    ) -> dict[str, str]:
        for _ in range(MAX_REDIRECTS):
            if response.is_redirect:
                target = urljoin(str(response.url), response.headers["location"])
                if target.startswith(self.redirect_uri):
                    query = parse_qs(urlsplit(target).query)
                    return {name: values[0] for name, values in query.items()}
                response = browser.get(target)
                continue
            action = re.search(r'action="([^"]+)"', response.text)
            prompt = re.search(r'name="prompt" value="(\w+)"', response.text)
            assert action and prompt, response.text
            form = {"prompt": prompt[1], "login": person, "password": "x"}
            response = browser.post(urljoin(str(response.url), action[1]), data=form)
        raise AssertionError("the provider did not send the browser back")


@contextmanager
def started(
    folder: Path, redirect_uri: str, wrong_by_seconds: int = 0
) -> Iterator[IdentityProvider]:
    provider = IdentityProvider(folder, redirect_uri, wrong_by_seconds)
    try:
        wait_for("the identity provider", provider.is_ready, folder / "log")
        yield provider
    finally:
        provider.end()
