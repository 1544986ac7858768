"""An appliance whose disk fills up: it warns, refuses grants, loses nothing and recovers."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from deploy.supervisor import wait_for
from tests.appliance.appliance_process import ApplianceProcess, started
from tests.load.http import HttpError

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.getuid() != 0, reason="only root mounts a small file system"),
]
DISK_MIB, LOW_MIB, FULL_MIB = 128, 32, 16
MIB = 1 << 20
WAITING = {"percent": 10, "allow_pending": True}
"""A request that waits: the appliance has no GPUs."""
READY = {"ready": True, "disk": "ok", "failed_work": False}
MOST_PROJECTS, REFUSALS = 400, 5
LIMITS = {"BUSBAR_DISK_LOW_MIB": str(LOW_MIB), "BUSBAR_DISK_FULL_MIB": str(FULL_MIB)}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Administrator:
    def __init__(self, appliance: ApplianceProcess, token: str) -> None:
        self.appliance, self.token = appliance, token

    def request(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        return asyncio.run(
            self.appliance.client().request(method, f"/api/v1/{path}", headers=headers, **options)
        )

    def events(self) -> list[str]:
        kinds = [e["kind"] for e in self.request("GET", "events")["items"]]
        return sorted(k for k in kinds if k.startswith("appliance.disk"))

    def project_names(self) -> set[str]:
        query = {"limit": 500}
        return {p["name"] for p in self.request("GET", "projects", query=query)["items"]}

    def wait_for_level(self, level: str, event: str) -> None:
        def reached() -> bool:
            disk: str = orjson.loads(self.appliance.get("/readyz"))["disk"]
            return disk == level and event in self.events()

        wait_for(f"disk {level}", reached, self.appliance.log)


def fill(disk: Path, free_mib: int) -> None:
    """Write to one file until this much space is left."""
    with (disk / "filler").open("ab") as filler, suppress(OSError):
        while (s := os.statvfs(disk)).f_bavail * s.f_frsize > free_mib * MIB:
            filler.write(bytes(MIB // 16))
            filler.flush()


def add_projects(admin: Administrator) -> tuple[set[str], set[str]]:
    """Return the names of the projects that were and that were not added; 507 is the only error.

    Files of the database that are already there have room for some. Ends after some refusals.
    """
    added, refused = set[str](), set[str]()
    for n in range(MOST_PROJECTS):
        if len(refused) == REFUSALS:
            break
        name = f"project-{n}-" + "x" * 80
        try:
            admin.request("POST", "projects", body={"name": name})
            added.add(name)
        except HttpError as error:
            assert "disk_full" in str(error), error
            refused.add(name)
    return added, refused


def test_full_disk_is_noticed_and_nothing_is_lost(disk: Path) -> None:
    with started(disk, **LIMITS) as appliance:
        token = appliance.manage("create_token", "--role", "administrator")
        admin = Administrator(appliance, token)
        assert orjson.loads(appliance.get("/readyz")) == READY
        held = admin.request("POST", "allocations", body=WAITING)["id"]

        fill(disk, (LOW_MIB + FULL_MIB) // 2)
        admin.wait_for_level("low", "appliance.disk_low")
        other = admin.request("POST", "allocations", body=WAITING)["id"]

        fill(disk, FULL_MIB // 2)
        admin.wait_for_level("full", "appliance.disk_full")
        with pytest.raises(HttpError, match=r"^507.*disk_full"):
            admin.request("POST", "allocations", body=WAITING)
        admin.request("DELETE", f"allocations/{held}")
        assert admin.request("GET", f"allocations/{held}")["state"] == "released"

        fill(disk, 0)
        added, refused = add_projects(admin)
        assert refused, "the disk was not full"
        assert added <= admin.project_names() and not refused & admin.project_names()
        appliance.process.kill()
        appliance.process.wait()

    (disk / "filler").unlink()
    with started(disk, **LIMITS) as appliance:
        admin = Administrator(appliance, token)
        assert added <= admin.project_names() and not refused & admin.project_names()
        assert admin.request("GET", f"allocations/{held}")["state"] == "released"
        assert admin.request("GET", f"allocations/{other}")["state"] in ("queued", "released")
        admin.request("POST", "allocations", body=WAITING)
        assert admin.events() == ["appliance.disk_full", "appliance.disk_low"]
        fill(disk, (LOW_MIB + FULL_MIB) // 2)
        wait_for("a second event", lambda: len(admin.events()) == 3, appliance.log)
        (disk / "filler").unlink()
        admin.wait_for_level("ok", "appliance.disk_ok")
