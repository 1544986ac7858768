"""Sign-in by `busbar login` and recovery by `./busbar-admin` at a running appliance."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import time
from base64 import b32decode
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from appliance.signin import totp
from deploy.supervisor import ROOT, Stack, login_hint
from tests.appliance.appliance_process import PASSWORD, STRANGER, ApplianceProcess, started


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    with started(tmp_path_factory.mktemp("appliance"), BUSBAR_SECOND_FACTOR="required") as running:
        yield running


class Terminal:
    """A running `busbar` command, with pipes in place of a terminal."""

    def __init__(self, appliance: ApplianceProcess, context: Path, *arguments: str) -> None:
        pem = (appliance.data / "ca.pem").read_text()
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
        command = [
            sys.executable,
            "-m",
            "remoting.cli.main",
            "login",
            appliance.url,
            "--password-stdin",
        ]
        self.context = context
        self.process = subprocess.Popen(
            [*command, "--ca-sha256", digest, *arguments],
            cwd=ROOT,
            env=os.environ | {"BUSBAR_CONTEXT": str(context)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # without a terminal
        )

    def type(self, *lines: str) -> None:
        assert self.process.stdin
        self.process.stdin.write("".join(f"{line}\n" for line in lines))
        self.process.stdin.flush()

    def read_until(self, pattern: str) -> str:
        """Return the first group of the first line that matches."""
        assert self.process.stdout
        for line in self.process.stdout:
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(self.process.communicate()[1])

    def end(self) -> str:
        output, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        return output

    def client(self, appliance: ApplianceProcess) -> httpx.Client:
        token = json.loads(self.context.read_text())["token"]
        headers = {"Authorization": f"Bearer {token}"}
        tls = appliance.context
        return httpx.Client(base_url=appliance.url, verify=tls, headers=headers, timeout=60)


def one_time_password(appliance: ApplianceProcess, *arguments: str) -> str:
    done = subprocess.run(
        [str(ROOT / "busbar-admin"), "reset-password", *arguments],
        env=appliance.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


def code_of(secret: str, offset: int = 0) -> str:
    padded = secret + "=" * (-len(secret) % 8)
    return totp.code_at(b32decode(padded), int(time.time()) // totp.STEP_SECONDS + offset)


def log_in(appliance: ApplianceProcess, source: str = "127.0.0.1", **fields: str) -> Any:
    body = {"username": "admin", "password": PASSWORD} | fields
    transport = httpx.HTTPTransport(verify=appliance.context, local_address=source)
    with httpx.Client(transport=transport, timeout=60) as client:
        return client.post(f"{appliance.url}/api/v1/login", json=body)


def test_command_sets_up_a_required_factor_and_a_device_signs_in_by_a_code(
    appliance: ApplianceProcess, tmp_path: Path
) -> None:
    one_time = (appliance.data / "initial-admin-password").read_text().strip()
    terminal = Terminal(appliance, tmp_path / "first.json")
    terminal.type(one_time)
    secret = terminal.read_until("^Secret: ([A-Z2-7]+)$")
    terminal.type(PASSWORD, code_of(secret))
    assert len(re.findall(r"^  (?:\w{4}-){3}\w{4}$", terminal.end(), re.MULTILINE)) == 10
    with terminal.client(appliance) as client:
        assert "accounts.manage" in client.get("/api/v1/me").json()["privileges"]
        device = Terminal(appliance, tmp_path / "second.json", "--device")
        code = device.read_until(r"^\s+([A-Z]{4}-[A-Z]{4})$")
        assert client.post(f"/api/v1/device-logins/{code}/approve").status_code == 200
        assert "Signed in" in device.end()
    with device.client(appliance) as client:
        assert client.get("/api/v1/me").json()["username"] == "admin"
        refused = client.delete("/api/v1/second-factor").json()
        assert refused["code"] == "conflict", "the fresh sign-in is that of the approval"

    # Logins that lack only the code do not count as failures, also not of a stranger.
    for _ in range(12):
        assert log_in(appliance, STRANGER).json()["code"] == "second_factor_required"
    assert log_in(appliance, code=code_of(secret, 1)).status_code == 200


def test_reset_password_prints_one_that_signs_in(appliance: ApplianceProcess) -> None:
    password = one_time_password(appliance)
    refused = log_in(appliance, password=password)
    assert refused.json()["must_change_password"] is True
    assert refused.json()["code"].startswith("second_factor_"), "the factor is not skipped"
    assert log_in(appliance, password="wrong").json()["code"] == "unauthenticated"


def printed_line(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    assert found, text
    return found[1]


def run_printed(line: str, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a line that the appliance has printed, in a shell of another folder."""
    environment = {name: value for name, value in os.environ.items() if name != "BUSBAR_DATA"}
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=folder,
        env=environment | {"BUSBAR_DATABASE": ""},
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_line_for_an_expired_password_works_as_it_is_printed(
    appliance: ApplianceProcess, tmp_path: Path
) -> None:
    expired = one_time_password(appliance)
    with contextlib.closing(sqlite3.connect(appliance.data / "control.db")) as database, database:
        database.execute("UPDATE accounts_user SET password_expires_at = '2020-01-01 00:00:00'")
    refused = log_in(appliance, password=expired).json()
    line = printed_line(refused["detail"], r"or `([^`]+)` on the appliance's machine")
    done = run_printed(line, tmp_path)
    assert done.returncode == 0, done.stderr
    answer = log_in(appliance, password=done.stdout.splitlines()[-1])
    assert answer.json()["code"].startswith("second_factor_")


def test_line_for_a_forgotten_password_works_as_run_prints_it(
    appliance: ApplianceProcess, tmp_path: Path
) -> None:
    data = tmp_path / "a data folder"
    data.mkdir()
    (data / "appliance").symlink_to(appliance.data)
    (data / "started").touch()
    (appliance.data / "initial-admin-password").unlink(missing_ok=True)
    stack = SimpleNamespace(data=data, appliance_data=data / "appliance")
    line = printed_line(login_hint(cast("Stack", stack)), "reset it with: (.*)")
    done = run_printed(line, tmp_path)
    assert done.returncode == 0, done.stderr
    answer = log_in(appliance, password=done.stdout.splitlines()[-1])
    assert answer.json()["code"].startswith("second_factor_")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_admin_command_serves_an_owner_without_a_name() -> None:
    """As in a container. A copy of the script is used, because the checkout may be private."""
    nameless = 61499
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "busbar-admin", folder)
        (folder / "appliance").mkdir()
        (folder / "appliance" / "secret_key").touch()
        for path in (folder, *folder.rglob("*")):
            os.chown(path, nameless, nameless)
        line = f"{folder}/busbar-admin --data {folder} reset-password"
        done = run_printed(line, Path("/"), user=nameless)
    assert f"{folder}/.venv/bin/python" in done.stderr and "belong to" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["reset-password", "unknown-user"], 1, 'User "unknown-user" not found. Users: admin'),
        (["--data", "/nonexistent", "reset-password"], 1, "There is no appliance in"),
        (["unknown"], 2, "Usage: ./busbar-admin"),
    ],
)
def test_admin_command_explains_what_is_wrong(
    appliance: ApplianceProcess, arguments: list[str], status: int, message: str
) -> None:
    environment = {k: v for k, v in appliance.environment.items() if k != "BUSBAR_DATA"}
    if arguments[0] != "--data":
        environment["BUSBAR_DATA"] = str(appliance.data)
    done = subprocess.run(
        [str(ROOT / "busbar-admin"), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status and message in done.stderr, done.stderr
