"""The Ansible collection against a real machine: enrolment, repetition, upgrade and removal."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deploy.collection import write_collection
from deploy.supervisor import wait_for
from tests.ansible.commands import BIN, environment
from tests.ansible.module_runner import RunModule, module_runner
from tests.fleet.conftest import Appliance, needs_root
from tests.fleet.target import PASSWORD, SUDO_USER, Target
from tests.fleet.test_node_package import launchers, log_of, running, working
from tests.fleet.test_ssh_enrolment import assert_nothing_left
from tests.remoting.node import EVENT_SECONDS

pytestmark = [pytest.mark.system, pytest.mark.long]
Play = Callable[..., dict[str, int]]


def add_ssh_key(machine: Target, folder: Path) -> Path:
    """Create a key that the machine accepts for SUDO_USER, and return its private file."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    home = f"/home/{SUDO_USER}/.ssh"
    ssh = machine.path(home)
    ssh.mkdir(mode=0o700)
    (ssh / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
    assert machine.run("chown", "-R", f"{SUDO_USER}:{SUDO_USER}", home).returncode == 0
    return key


def inventory(machine: Target, key: Path) -> dict[str, Any]:
    host = {
        "ansible_host": "127.0.0.1",
        "ansible_port": machine.port,
        "ansible_user": SUDO_USER,
        "ansible_become_password": PASSWORD,
        "ansible_ssh_private_key_file": str(key),
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no"
        " -o UserKnownHostsFile=/dev/null -o ControlPath=none",
    }
    return {"all": {"hosts": {"machine": host}}}


def create_token(appliance: Appliance) -> str:
    output = appliance.stack.manage(
        "create_token", "--user", "ansible", "--role", "operator", "--hours", "1"
    )
    return output.splitlines()[-1]


def node_logs(machine: Target) -> str:
    """Return the ends of the node's logs, for the message of a failed assertion."""
    state, home = machine.path("/var/lib/busbar/log"), machine.path("/opt/busbar")
    return "".join(p.read_text()[-1500:] for p in (*state.glob("*"), *home.glob("*.log")))


@pytest.fixture
def play(collections: Path, appliance: Appliance, machine: Target, tmp_path: Path) -> Play:
    """Return a function that runs a playbook and returns the machine's counts of its recap."""
    key = add_ssh_key(machine, tmp_path)
    (tmp_path / "inventory.json").write_text(json.dumps(inventory(machine, key)))
    token = create_token(appliance)
    variables = {
        "node_appliance_url": appliance.stack.url,
        "node_ca_file": str(appliance.stack.appliance_data / "ca.pem"),
        "node_token": token,
        "node_software_gpus": 1,
    }
    (tmp_path / "variables.json").write_text(json.dumps(variables))
    options: list[str | Path] = [
        "-i",
        tmp_path / "inventory.json",
        "-e",
        f"@{tmp_path}/variables.json",
    ]

    def run(playbook: str, *arguments: str) -> dict[str, int]:
        done = subprocess.run(
            [BIN / "ansible-playbook", playbook, *options, *arguments],
            env=environment(collections),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            cwd=tmp_path,
        )
        output = done.stdout[-4000:] + done.stderr[-2000:]
        assert done.returncode == 0, output + node_logs(machine)
        assert token not in done.stdout, "the token must not be printed"
        recap = re.search(r"^machine\s+: (.*)$", done.stdout, re.M)
        assert recap, done.stdout
        return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", recap[1])}

    return run


def assert_drain_is_idempotent(play: Play, appliance: Appliance, node: str) -> None:
    def drain(*arguments: str) -> int:
        return play("busbar.pool.drain", "-e", f"node_name={node}", *arguments)["changed"]

    assert drain("--check") == 1 and appliance.api.items("nodes")[0]["state"] == "ready"
    assert drain() == 1 and appliance.api.items("nodes")[0]["state"] == "maintenance"
    assert drain() == 0


@needs_root
def test_playbooks_are_idempotent_and_removal_leaves_no_files(
    play: Play, appliance: Appliance, machine: Target
) -> None:
    before = machine.tree()
    assert play("busbar.pool.enrol", "--check")["changed"] == 1, "check mode must report the change"
    assert appliance.api.items("nodes") == []
    assert play("busbar.pool.enrol")["changed"] == 1
    assert play("busbar.pool.enrol")["changed"] == 0

    node = appliance.api.items("nodes")[0]
    assert node["state"] == "ready" and node["reachable"]
    appliance.run_demo()
    assert_drain_is_idempotent(play, appliance, node["name"])

    assert (
        play("busbar.pool.remove", "--check")["changed"] == 2
        and appliance.api.items("nodes")[0]["reachable"]
    )
    assert play("busbar.pool.remove")["changed"] == 2
    assert appliance.api.items("nodes") == []
    assert play("busbar.pool.remove")["changed"] == 0
    for own in (f"/home/{SUDO_USER}/.ansible", "/run/sudo"):  # left by Ansible and sudo
        shutil.rmtree(machine.path(own), ignore_errors=True)
    assert_nothing_left(machine, before)


@needs_root
def test_upgrade_keeps_sessions_and_the_state_of_the_node(
    play: Play, appliance: Appliance, machine: Target
) -> None:
    assert play("busbar.pool.enrol")["changed"] == 1
    digest = machine.path("/opt/busbar/digest")
    newer = digest.read_text()
    digest.write_text("of an older version")
    assert play("busbar.pool.enrol")["changed"] == 0
    with working(appliance) as program:
        wait_for("the session", lambda: running(appliance) != [], log_of(appliance), EVENT_SECONDS)
        sessions, (launcher,) = running(appliance), launchers(machine)
        (node,) = appliance.api.items("nodes")
        appliance.api.request("POST", f"nodes/{node['id']}/cordon")

        assert play("busbar.pool.upgrade", "--check")["changed"] == 1
        assert launchers(machine) == [launcher], "check mode must change nothing"
        assert play("busbar.pool.upgrade")["changed"] == 1
        assert digest.read_text() == newer
        assert len(launchers(machine)) == 1 and launchers(machine) != [launcher]
        assert appliance.api.items("nodes")[0]["state"] == "cordoned"
        assert running(appliance) == sessions
        program.terminate()
        out, err = program.communicate(timeout=EVENT_SECONDS)
        assert program.returncode == 0 and "correct after" in out, err
    assert play("busbar.pool.upgrade")["changed"] == 0


@pytest.fixture
def run_as_operator(
    appliance: Appliance, connection: dict[str, str], collections: Path
) -> RunModule:
    return module_runner(collections, connection | {"token": create_token(appliance)})


def assert_maintenance_begins_and_ends(appliance: Appliance, module: RunModule) -> None:
    for options, state in (({"state": "maintenance"}, "maintenance"), ({}, "ready")):
        before = appliance.api.items("nodes")[0]
        checked = module(check=True, **options)
        assert checked["changed"] and checked["diff"]["after"]["state"] == state
        assert appliance.api.items("nodes")[0]["state"] == before["state"]
        changed = module(**options)
        assert changed["changed"] and changed["diff"] == checked["diff"], changed
        assert not module(**options)["changed"]
        assert appliance.api.items("nodes")[0]["state"] == state


def assert_allocation_is_held_and_released(appliance: Appliance, run_module: RunModule) -> None:
    options = {"name": "held", "percent": 25, "compute_mode": "capped", "wait_seconds": 60}
    created = run_module("allocation", **options)["allocation"]
    assert created["state"] == "active" and appliance.api.items("partitions")
    assert created["compute_mode"] == "capped"
    held = run_module("allocation", **options)
    assert not held["changed"] and held["allocation"]["id"] == created["id"]
    options["percent"] = 40
    resized = run_module("allocation", **options)
    assert resized.get("changed"), resized
    assert resized["allocation"]["id"] == created["id"]
    assert resized["allocation"]["resize"] is None, "the module must wait for the size"
    assert resized["allocation"]["partitions"][0]["compute_percent"] == 40
    assert not run_module("allocation", **options)["changed"]
    assert_mode_is_changed_once(appliance, run_module, resized["allocation"], options)
    assert run_module("allocation", state="absent", **options)["changed"]
    assert not appliance.api.items("partitions"), "the module must wait for the release"


def assert_mode_is_changed_once(
    appliance: Appliance, run_module: RunModule, held: dict[str, Any], options: dict[str, Any]
) -> None:
    def modes() -> tuple[str, str]:
        row = appliance.api.request("GET", f"allocations/{held['id']}")
        return row["compute_mode"], row["granted_compute_mode"]

    options["compute_mode"] = "guaranteed"
    checked = run_module("allocation", check=True, **options)
    assert checked["changed"] and checked["diff"]["after"]["compute_mode"] == "guaranteed"
    assert modes() == ("capped", "capped"), "check mode must change nothing"
    changed = run_module("allocation", **options)
    assert changed["changed"] and changed["diff"] == checked["diff"]
    assert changed["allocation"]["id"] == held["id"] and modes() == ("guaranteed", "guaranteed")
    version = changed["allocation"]["version"]
    for check in (False, True):
        again = run_module("allocation", check=check, **options)
        assert not again["changed"] and again["allocation"]["version"] == version


@needs_root
def test_module_cordons_labels_and_removes_with_check_mode_and_diff(
    appliance: Appliance, machine: Target, run_as_operator: RunModule, run_module: RunModule
) -> None:
    name = appliance.enrol(machine)["result"]["node"]
    module = partial(run_as_operator, "node", name=name)
    cordoned = {"state": "cordoned", "labels": {"rack": "r12"}}

    checked = module(check=True, **cordoned)
    assert checked["changed"] and checked["diff"]["after"] == cordoned
    state = appliance.api.find_by_name("nodes", name)["state"]
    assert state == "ready", "check mode must change nothing"

    assert module(**cordoned)["changed"]
    again = module(**cordoned)
    assert not again["changed"] and again["diff"]["before"] == again["diff"]["after"]
    assert appliance.api.find_by_name("nodes", name)["labels"] == {"rack": "r12"}
    assert module()["changed"] and not module()["changed"]

    assert_allocation_is_held_and_released(appliance, run_module)
    assert_maintenance_begins_and_ends(appliance, module)
    assert module(check=True, state="absent")["changed"]
    assert appliance.api.find_by_name("nodes", name)
    assert module(state="absent")["changed"] and not module(state="absent")["changed"]
    missing = module()
    assert missing["failed"] and "enrol the machine" in missing["msg"]
    assert module(token="bb_wrong.token")["failed"]


def test_collection_passes_ansible_lint(collections: Path) -> None:
    folder = collections / "lint" / "ansible_collections" / "busbar" / "pool"
    write_collection(folder)
    env = environment(collections, ANSIBLE_COLLECTIONS_PATH=str(collections / "lint"), NO_COLOR="1")
    done = subprocess.run(
        [BIN / "ansible-lint", "--offline", "--profile", "production"],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
