"""Users, groups, roles and tokens by the command alone, and what each account may do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.system import command
from tests.system.command import Done
from tests.system.conftest import Pool

pytestmark = pytest.mark.system
UNCONFIRMED = (
    "user reset-password admin",
    "user reset-second-factor admin",
    "user delete ci",
    "group remove programs --user ci",
    "group delete programs",
    "second-factor disable",
    "second-factor recovery-codes",
    "ca advance --force",
    "ticket-key advance --force",
)
"""Commands that destroy something and ask first."""


def busbar(environment: dict[str, str], *arguments: str, text: str = "", expected: int = 0) -> Done:
    done = command.busbar(environment, *arguments, text=text)
    assert done.returncode == expected, (arguments, done.stdout, done.stderr)
    return done


def add_service_account(admin: dict[str, str]) -> str:
    """Create the account ci, which is a user in department science, and return its token."""
    for line in (
        "department create science",
        "project create physics --department science",
        "project create arts",
        "group create programs",
        "user create ci --service",
        "group add programs --user ci",
        "role-binding create user --group programs --department science",
    ):
        busbar(admin, *line.split())
    return busbar(admin, "token", "create", "pipeline", "--user", "ci").stdout.strip()


def test_service_account_of_a_department_runs_programs_in_its_projects_only(
    pool: Pool, tmp_path: Path
) -> None:
    admin = {"BUSBAR_CONTEXT": str(pool.context)}
    ca = tmp_path / "ca.pem"
    ca.write_text((pool.stack.appliance_data / "ca.pem").read_text())
    token = add_service_account(admin)
    ci = {"BUSBAR_TOKEN": token, "BUSBAR_URL": pool.stack.url, "BUSBAR_CA": str(ca)}
    assert json.loads(busbar(ci, "whoami", "-o", "json").stdout)["username"] == "ci"
    run = ("run", "-m", "256MiB", "--lifetime", "10m", "--project")
    busbar(ci, *run, "physics", "--", "true")
    busbar(ci, *run, "arts", "--", "true", expected=3)
    busbar(ci, "user", "list", expected=5)
    limited = "token create watcher --scope viewer --network 127.0.0.0/8 --lifetime 1h"
    made = json.loads(busbar(ci, *limited.split(), "-o", "json").stdout)
    watcher = ci | {"BUSBAR_TOKEN": made["token"]}
    busbar(watcher, *run, "physics", "--", "true", expected=5)
    wider = busbar(watcher, "token", "create", "wider", "--scope", "user", expected=5)
    assert "scopes: a token creates no token" in wider.stderr
    assert "127.0.0.0/8" in busbar(watcher, "token", "show", made["id"]).stdout
    busbar(admin, "project", "delete", "physics", expected=2)  # no terminal to confirm
    login = ("login", pool.stack.url, "--ca-sha256", pool.stack.ca_fingerprint(), "--token-stdin")
    own = {"BUSBAR_CONTEXT": str(tmp_path / "context.json")}
    busbar(own, *login, text="bb_wrong.token\n", expected=5)
    assert "Signed in as ci" in busbar(own, *login, text=token + "\n").stdout
    busbar(own, "logout")
    assert not (tmp_path / "context.json").exists()
    busbar(ci, "whoami", expected=5)
    for line in UNCONFIRMED:
        assert "repeat with --yes" in busbar(admin, *line.split(), expected=2).stderr, line
    refused = busbar(admin, "user", "set", "ci", "--inactive", expected=2)
    assert "and 0 allocations of ci?" in refused.stderr
    busbar(admin, "user", "set", "ci", "--inactive", "--yes")
    pool.settle()
    busbar(admin, "user", "delete", "ci", "--yes")
    busbar(admin, "project", "delete", "physics", "--yes")
    busbar(admin, "department", "delete", "science", "--yes")


@pytest.mark.parametrize("kind", ["allocations", "gpus", "nodes", "pools", "projects"])
def test_access_takes_names_of_objects(pool: Pool, kind: str) -> None:
    admin = {"BUSBAR_CONTEXT": str(pool.context)}
    gpu = pool.api.items("gpus")[0]
    name = {"gpus": f"{gpu['node']}/{gpu['index']}", "nodes": gpu["node"]}.get(kind, "default")
    if kind == "allocations":
        name = busbar(admin, "allocation", "create", "-p", "5", "--lifetime", "1h").stdout.strip()
        busbar(admin, "access", "--object", f"{kind}/{name[:23]}")
        busbar(admin, "allocation", "release", "--yes", name)
    shown = busbar(admin, "access", "--object", f"{kind}/{name}").stdout
    assert "allocations.view" in shown and "administrator" in shown
    busbar(admin, "access", "--object", f"{kind}/unknown", expected=3)
