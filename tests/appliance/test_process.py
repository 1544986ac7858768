"""The running process: one appliance a database, orderly ends, what it serves."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.supervisor import ROOT, free_port, wait_for


def environment(folder: Path) -> dict[str, str]:
    https = free_port(48443, "127.0.0.1")
    return os.environ | {
        "BUSBAR_DATABASE": "",
        "BUSBAR_DATA": str(folder),
        "BUSBAR_HTTPS_PORT": str(https),
        "BUSBAR_FLEET_PORT": str(free_port(https + 1, "127.0.0.1")),
    }


def get(env: dict[str, str], path: str) -> bytes:
    context = ssl.create_default_context(cafile=str(Path(env["BUSBAR_DATA"]) / "ca.pem"))
    with urllib.request.urlopen(
        f"https://127.0.0.1:{env['BUSBAR_HTTPS_PORT']}{path}", timeout=5, context=context
    ) as response:
        content: bytes = response.read()
        return content


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    env = environment(tmp_path / "data")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "runappliance"], cwd=ROOT, env=env, stdout=log, stderr=log
        )

    def ready() -> bool:
        try:
            return b"true" in get(env, "/readyz")
        except OSError:
            return False

    wait_for("the appliance", ready, tmp_path / "log")
    yield process, env
    process.kill()
    process.wait()


def test_it_serves_its_api_page_offline_and_refuses_a_second_appliance(
    running: tuple[subprocess.Popen[bytes], dict[str, str]],
) -> None:
    _, env = running
    assert get(env, "/healthz") == b"ok\n"
    page = get(env, "/api/docs").decode()
    assert "swagger-ui" in page and "//cdn" not in page and "unpkg" not in page
    assert b"/api/v1/allocations" in get(env, "/api/schema")
    for line in page.splitlines():
        if 'src="/static' in line:
            assert len(get(env, line.split('src="')[1].split('"')[0])) > 1000
    second = subprocess.run(
        [sys.executable, "manage.py", "runappliance"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode != 0 and "Another appliance uses" in second.stderr


def test_sigterm_ends_it_within_ten_seconds(
    running: tuple[subprocess.Popen[bytes], dict[str, str]],
) -> None:
    process, _ = running
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(12) == 0 and time.monotonic() - begun < 10


def test_keys_are_private_and_outside_the_database(
    running: tuple[subprocess.Popen[bytes], dict[str, str]],
) -> None:
    _, env = running
    folder = Path(env["BUSBAR_DATA"])
    database = b"".join(p.read_bytes() for p in folder.glob("control.db*"))
    for name in ("ca.key", "ticket_key", "secret_key", "server.key", "initial-admin-password"):
        assert (folder / name).stat().st_mode & 0o077 == 0, name
        assert (folder / name).read_bytes().strip() not in database, name
