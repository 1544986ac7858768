"""The compute share that an allocation received, from the launcher to REST, CLI and console."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from deploy.supervisor import ROOT
from tests.console.conftest import Console, start_program
from tests.console.pictures import picture
from tests.remoting.node import EVENT_SECONDS
from tests.system.conftest import Pool

pytestmark = pytest.mark.system
PAUSE_MS = 20
"""Of programs that use the GPU all the time, and leave the processors to the browser."""
TITLE = "Share received in the last minute"


def shown_by_command(pool: Pool, kind: str, object_id: str) -> str:
    env = os.environ | {"BUSBAR_CONTEXT": str(pool.context), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "remoting.cli.main", kind, "show", object_id]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=EVENT_SECONDS, check=True
    )
    return done.stdout


def test_share_of_two_tenants_of_a_gpu_stands_everywhere(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    for percent in (30, 60):
        start_program(pool, percent, PAUSE_MS)

    def allocations() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = pool.api.items("allocations", state="active")
        return found

    def shares() -> list[float]:
        found = [a["compute_received_percent"] for a in allocations()]
        return [share for share in found if share]

    pool.wait("the shares", lambda: len(shares()) == 2)
    assert max(shares()) <= 100
    first = allocations()[0]
    assert first["compute_error_percent"] is not None and first["longest_drain_ms"] is not None
    (session,) = pool.sessions(allocation_id=first["id"])
    assert session["compute_received_percent"] and session["compute_error_percent"] is not None
    for kind, object_id in (("allocation", first["id"]), ("session", session["id"])):
        assert "points from the granted share" in shown_by_command(pool, kind, object_id)
    main = console.page.get_by_role("main")
    console.open(f"/allocations/{first['id']}")
    for page in (f"/allocations/{first['id']}", f"/sessions/{session['id']}"):
        console.navigate(page)
        expect(main.get_by_text(TITLE)).to_be_visible()
        expect(main.get_by_text("points from the granted share")).to_be_visible()
        picture(console.page, screenshots, f"received-share-{page.split('/')[1]}")
        console.page.get_by_role("tab", name="Monitor").click()
        expect(main.get_by_text(TITLE)).to_be_visible()
        picture(console.page, screenshots, f"received-share-{page.split('/')[1]}-monitor")
