"""Start, shutdown and files of the appliance process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.supervisor import ROOT
from tests.appliance.appliance_process import ApplianceProcess, started_as_it_is


@pytest.fixture
def new_appliance(tmp_path: Path) -> Iterator[ApplianceProcess]:
    with started_as_it_is(tmp_path) as running:
        yield running


def test_new_appliance_needs_no_network_rejects_a_second_one_and_ends_at_sigterm(
    new_appliance: ApplianceProcess,
) -> None:
    appliance = new_appliance
    assert appliance.get("/healthz") == b"ok\n"
    page = appliance.get("/api/docs").decode()
    assert "swagger-ui" in page and "//cdn" not in page and "unpkg" not in page
    assert b"/api/v1/allocations" in appliance.get("/api/schema")
    for line in page.splitlines():
        if 'src="/static' in line:
            assert len(appliance.get(line.split('src="')[1].split('"')[0])) > 1000
    second = subprocess.run(
        [sys.executable, "manage.py", "runappliance"],
        cwd=ROOT,
        env=appliance.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode != 0 and "Another appliance uses" in second.stderr
    appliance.process.send_signal(signal.SIGTERM)
    assert appliance.process.wait(60) == 0


def test_keys_are_private_and_outside_the_database(
    appliance: ApplianceProcess,
) -> None:
    folder = appliance.data
    database = b"".join(p.read_bytes() for p in folder.glob("control.db*"))
    for name in ("ca.key", "ticket_key", "secret_key", "server.key", "initial-admin-password"):
        assert (folder / name).stat().st_mode & 0o077 == 0, name
        assert (folder / name).read_bytes().strip() not in database, name
