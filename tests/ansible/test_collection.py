"""The collection against a real machine: converge, again, verify, remove, again."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import BUILD, ROOT, wait_for
from tests.fleet.conftest import Appliance, needs_root
from tests.fleet.target import OPERATOR, PASSWORD, Target
from tests.fleet.test_ssh_enrolment import nothing_is_left

pytestmark = pytest.mark.system
BIN = Path(sys.executable).parent
DEMO = str(BUILD / "demo" / "gpu_demo")


def environment(folder: Path, **more: str) -> dict[str, str]:
    return os.environ | {
        "ANSIBLE_COLLECTIONS_PATH": str(folder), "ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"), "PATH": f"{BIN}:{os.environ['PATH']}", "ANSIBLE_PIPELINING": "1", "LC_ALL": "C.UTF-8",
    } | more  # fmt: skip


@pytest.fixture(scope="session")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built and installed as a user would, without a network."""
    folder = tmp_path_factory.mktemp("collections")
    env = environment(folder)
    run = [BIN / "ansible-galaxy", "collection"]
    subprocess.run(
        [*run, "build", "--output-path", folder, ROOT / "ansible"],
        env=env,
        check=True,
        capture_output=True,
    )
    subprocess.run(
        [
            *run,
            "install",
            "--offline",
            "--no-deps",
            "-p",
            folder,
            folder / "busbar-pool-0.1.0.tar.gz",
        ],
        env=env,
        check=True,
        capture_output=True,
    )
    return folder


Play = Callable[..., dict[str, int]]


@pytest.fixture
def play(collections: Path, appliance: Appliance, machine: Target, tmp_path: Path) -> Play:
    """Plays and returns the machine's counts; the log is in `plays`."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    ssh = machine.path(f"/home/{OPERATOR}/.ssh")
    ssh.mkdir(mode=0o700)
    (ssh / "authorized_keys").write_text((tmp_path / "key.pub").read_text())
    assert (
        machine.run("chown", "-R", f"{OPERATOR}:{OPERATOR}", f"/home/{OPERATOR}/.ssh").returncode
        == 0
    )
    inventory = {
        "all": {
            "hosts": {
                "machine": {
                    "ansible_host": "127.0.0.1", "ansible_port": machine.port, "ansible_user": OPERATOR, "ansible_become_password": PASSWORD,
                    "ansible_ssh_private_key_file": str(key), "ansible_python_interpreter": "/usr/bin/python3",
                    "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ControlPath=none",
                }
            }
        }
    }  # fmt: skip
    (tmp_path / "inventory.json").write_text(json.dumps(inventory))
    token = appliance.stack.manage(
        "create_token", "--user", "ansible", "--role", "operator", "--hours", "1"
    ).splitlines()[-1]
    variables = {
        "node_appliance_url": appliance.stack.url, "node_ca_file": str(appliance.stack.appliance_data / "ca.pem"), "node_token": token, "node_software_gpus": 1,
    }  # fmt: skip
    (tmp_path / "variables.json").write_text(json.dumps(variables))

    def run(playbook: str, *arguments: str) -> dict[str, int]:
        command = [
            BIN / "ansible-playbook",
            playbook,
            "-i",
            tmp_path / "inventory.json",
            "-e",
            f"@{tmp_path}/variables.json",
            *arguments,
        ]
        done = subprocess.run(
            command,
            env=environment(collections),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            cwd=tmp_path,
        )
        logs = "".join(
            p.read_text()[-1500:]
            for p in (
                *machine.path("/var/lib/busbar/log").glob("*"),
                *machine.path("/opt/busbar").glob("*.log"),
            )
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:] + logs
        assert token not in done.stdout, "the token is never printed"
        recap = re.search(r"^machine\s+: (.*)$", done.stdout, re.M)
        assert recap, done.stdout
        return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", recap[1])}

    return run


@needs_root
def test_the_playbooks_converge_verify_and_remove(
    play: Play, appliance: Appliance, machine: Target
) -> None:
    before = machine.tree()
    assert play("busbar.pool.enrol", "--check")["changed"] == 1, "check mode says what it would do"
    assert appliance.api.items("nodes") == []
    assert play("busbar.pool.enrol")["changed"] == 1
    assert play("busbar.pool.enrol")["changed"] == 0

    node = appliance.api.items("nodes")[0]
    assert node["state"] == "ready" and node["reachable"]
    env = os.environ | {"BUSBAR_CONTEXT": str(appliance.context), "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "remoting.cli.main",
        "run",
        "-p",
        "25",
        "--timeout",
        "30",
        "--",
        DEMO,
        "add",
    ]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0 and "are right" in done.stdout, done.stderr
    wait_for(
        "the release",
        lambda: not appliance.api.items("partitions"),
        appliance.stack.logs / "appliance.log",
        30,
    )

    assert (
        play("busbar.pool.remove", "--check")["changed"] == 2
        and appliance.api.items("nodes")[0]["reachable"]
    )
    assert play("busbar.pool.remove")["changed"] == 2
    assert appliance.api.items("nodes") == []
    assert play("busbar.pool.remove")["changed"] == 0
    for own in (f"/home/{OPERATOR}/.ansible", "/run/sudo"):  # Ansible's and sudo's own traces
        shutil.rmtree(machine.path(own), ignore_errors=True)
    nothing_is_left(machine, before)


@needs_root
def test_the_module_cordons_labels_and_removes_with_check_mode_and_diff(
    appliance: Appliance, machine: Target, collections: Path, tmp_path: Path
) -> None:
    name = appliance.enrol(machine)["result"]["node"]
    token = appliance.stack.manage(
        "create_token", "--user", "ansible", "--role", "operator", "--hours", "1"
    ).splitlines()[-1]

    def module(check: bool = False, **arguments: Any) -> dict[str, Any]:
        values = {
            "url": appliance.stack.url,
            "token": token,
            "ca_file": str(appliance.stack.appliance_data / "ca.pem"),
            "name": name,
        } | arguments
        (tmp_path / "arguments.json").write_text(
            json.dumps(
                {
                    "ANSIBLE_MODULE_ARGS": values
                    | {"_ansible_check_mode": check, "_ansible_diff": True}
                }
            )
        )
        command = [
            sys.executable,
            "-m",
            "ansible_collections.busbar.pool.plugins.modules.node",
            tmp_path / "arguments.json",
        ]
        env = environment(collections, PYTHONPATH=str(collections))
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    would = module(check=True, state="cordoned", labels={"rack": "r12"})
    assert would["changed"] and would["diff"]["after"] == {
        "state": "cordoned",
        "labels": {"rack": "r12"},
    }
    assert appliance.api.named("nodes", name)["state"] == "ready", "check mode changes nothing"
    assert module(state="cordoned", labels={"rack": "r12"})["changed"]
    again = module(state="cordoned", labels={"rack": "r12"})
    assert not again["changed"] and again["diff"]["before"] == again["diff"]["after"]
    assert appliance.api.named("nodes", name)["labels"] == {"rack": "r12"}
    assert module()["changed"] and not module()["changed"]
    assert module(check=True, state="absent")["changed"] and appliance.api.named("nodes", name)
    assert module(state="absent")["changed"] and not module(state="absent")["changed"]
    missing = module()
    assert missing["failed"] and "register the machine" in missing["msg"]
    assert (
        "not one" in module(token="bb_wrong.token")["msg"]
        or module(token="bb_wrong.token")["failed"]
    )


def test_the_collection_is_clean_to_ansible_lint(collections: Path) -> None:
    folder = collections / "lint" / "ansible_collections" / "busbar" / "pool"
    shutil.copytree(ROOT / "ansible", folder)
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
