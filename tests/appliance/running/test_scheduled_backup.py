"""A running appliance makes backups by itself."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from deploy.supervisor import wait_for
from tests.appliance.appliance_process import ApplianceProcess
from tests.appliance.test_backup import admin


def set_destination(appliance: ApplianceProcess, token: str, folder: Path | None) -> None:
    change = {"backup": {"destination": folder and str(folder)}}
    headers = {"Authorization": f"Bearer {token}"}
    client = appliance.client()
    asyncio.run(client.request("PATCH", "/api/v1/settings", headers=headers, body=change))


def test_appliance_makes_a_backup_by_itself(
    appliance: ApplianceProcess, token: str, tmp_path: Path
) -> None:
    stored = tmp_path / "stored"
    stored.mkdir()
    assert admin(appliance.environment, "backup-key", str(tmp_path / "key")).returncode == 0

    def is_recorded() -> bool:
        with closing(sqlite3.connect(appliance.data / "control.db")) as database:
            return bool(database.execute("SELECT 1 FROM backups_backup").fetchall())

    assert not is_recorded()
    set_destination(appliance, token, stored)
    wait_for("a backup", is_recorded, appliance.log)
    (made,) = stored.iterdir()
    assert made.name.endswith(".age")
    set_destination(appliance, token, None)
