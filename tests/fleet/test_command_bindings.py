"""Role bindings in the inventory by the command."""

from __future__ import annotations

import json

from tests.fleet.conftest import Appliance
from tests.system import command


def busbar(appliance: Appliance, line: str) -> str:
    done = command.busbar({"BUSBAR_CONTEXT": str(appliance.context)}, *line.split())
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout.strip()


def test_role_is_bound_in_a_pool_shown_explained_and_ended(session_appliance: Appliance) -> None:
    busbar(session_appliance, "user create hall --service")
    made = busbar(session_appliance, "role-binding create operator --user hall --pool default")
    listed = "role-binding list --pool default --user hall"
    assert "pool/default" in busbar(session_appliance, listed)
    assert json.loads(busbar(session_appliance, f"{listed} -o json"))[0]["id"] == made
    pool = session_appliance.api.find_by_name("pools", "default")["id"]
    access = busbar(session_appliance, f"access --user hall --object pools/{pool}")
    assert "pools.manage" in access and "pool/default" in access
    assert busbar(session_appliance, "access --user hall -o json").count("pools.manage") == 0
    busbar(session_appliance, f"role-binding delete {made} --yes")
    assert json.loads(busbar(session_appliance, f"{listed} -o json")) == []
