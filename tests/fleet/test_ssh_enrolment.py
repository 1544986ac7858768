"""Enrolment over a real OpenSSH server on separate machines, and its failures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import ROOT, wait_for
from remoting.cli.api import ApiError
from tests.fleet.conftest import Appliance, needs_root
from tests.fleet.proxy import FaultyProxy
from tests.fleet.target import NOISY_USER, PASSWORD, PLAIN_USER, SUDO_USER, Target, target

pytestmark = [pytest.mark.system, pytest.mark.long, needs_root]

Tree = dict[str, tuple[int, int, int, str]]


def assert_nothing_left(machine: Target, before: Tree) -> None:
    """Assert that the machine has no process of Busbar and the same files as before.

    Waits for the rollback, which starts when the connection ends.
    """
    wait_for(
        "the end of the processes on the machine",
        lambda: not machine.processes(),
        machine.folder / "sshd.log",
        30,
    )
    after = machine.tree()
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    assert changed == []


def assert_failed(task: dict[str, Any], code: str, *words: str) -> None:
    assert task["state"] == "failed" and task["error"]["code"] == code, task
    for word in words:
        assert word in task["error"]["detail"], task["error"]


def test_enrolled_machine_runs_a_program_and_removal_leaves_no_files(
    appliance: Appliance, machine: Target
) -> None:
    before = machine.tree()
    with pytest.raises(ApiError) as unconfirmed:
        appliance.api.request("POST", "nodes/enrol-ssh", appliance.body(machine))
    shown = machine.run("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub").stdout
    assert (
        unconfirmed.value.code == "host_key_unconfirmed"
        and f"SHA256:{unconfirmed.value.fields['host_key_sha256']} " in shown
    )

    task = appliance.enrol(machine)
    assert task["state"] == "succeeded" and task["progress_percent"] == 100, task
    assert {row["check"]: row["state"] for row in task["result"]["preflight"]}["driver"] == "pass"
    assert all(
        "root" not in line.split()[0]
        for line in machine.run("ps", "-o", "user=", "-C", "busbar-launcher").stdout.splitlines()
    )
    assert machine.path("/var/lib/busbar/current/agent.key").stat().st_mode & 0o077 == 0

    appliance.run_demo()

    node = appliance.api.find_by_name("nodes", task["result"]["node"])
    appliance.api.request("DELETE", f"nodes/{node['id']}")
    assert machine.run("/opt/busbar/busbar-node", "remove").returncode == 0
    assert_nothing_left(machine, before)
    assert_password_not_stored(appliance)


def assert_password_not_stored(appliance: Appliance) -> None:
    """Assert that no task, event, database, log or other file contains the password."""
    for path in ("tasks", "events"):
        assert PASSWORD not in str(appliance.api.items(path))
    for folder in (appliance.stack.appliance_data, appliance.stack.logs):
        for file in (f for f in folder.rglob("*") if f.is_file()):
            assert PASSWORD.encode() not in file.read_bytes(), file


def test_private_key_and_passwordless_sudo_are_accepted(
    appliance: Appliance, machine: Target, tmp_path: Path
) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "words", "-f", tmp_path / "key"], check=True
    )
    ssh = machine.path(f"/home/{NOISY_USER}/.ssh")
    ssh.mkdir(mode=0o700)
    (ssh / "authorized_keys").write_text((tmp_path / "key.pub").read_text())
    assert (
        machine.run(
            "chown", "-R", f"{NOISY_USER}:{NOISY_USER}", f"/home/{NOISY_USER}/.ssh"
        ).returncode
        == 0
    )
    key = (tmp_path / "key").read_text()
    assert_failed(
        appliance.enrol(
            machine, username=NOISY_USER, password="", private_key=key, passphrase="wrong"
        ),
        "sign_in_refused",
        "passphrase",
    )
    task = appliance.enrol(
        machine, username=NOISY_USER, password="", private_key=key, passphrase="words"
    )
    assert task["state"] == "succeeded", task


def test_command_enrols_a_machine(appliance: Appliance, machine: Target) -> None:
    env = os.environ | {"BUSBAR_CONTEXT": str(appliance.context), "PYTHONPATH": str(ROOT)}
    key = machine.run("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub").stdout.split()[1]
    arguments = ["node", "add", f"ssh://{SUDO_USER}@127.0.0.1:{machine.port}"]
    arguments += ["--software-gpus", "1", "--host-key-sha256", key, "--password-stdin"]
    done = subprocess.run(
        [sys.executable, "-m", "remoting.cli.main", *arguments],
        env=env,
        input=f"{PASSWORD}\n",
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (
        done.returncode == 0 and "is node" in done.stderr and "ok    python: 3." in done.stderr
    ), done.stderr
    assert len(appliance.api.items("nodes")) == 1


def test_left_over_files_are_detected(machine: Target) -> None:
    """Test `assert_nothing_left` with a planted file, folder, link and mode."""
    before = machine.tree()
    for plant, clean in (
        (("touch", "/etc/busbar.conf"), ("rm", "/etc/busbar.conf")),
        (("mkdir", "-p", "/opt/busbar/lib"), ("rm", "-r", "/opt/busbar")),
        (("ln", "-s", "/x", "/usr/local/bin/busbar"), ("rm", "/usr/local/bin/busbar")),
        (("chmod", "0777", "/opt"), ("chmod", "0755", "/opt")),
    ):
        assert machine.run(*plant).returncode == 0
        with pytest.raises(AssertionError):
            assert_nothing_left(machine, before)
        assert machine.run(*clean).returncode == 0
    assert_nothing_left(machine, before)


def test_machine_without_driver_fails_in_the_preflight(
    appliance: Appliance, machine: Target
) -> None:
    before = machine.tree()
    task = appliance.enrol(machine, software_gpus=0)
    assert_failed(task, "preflight_failed", "driver: no libcuda.so.1", "Install NVIDIA's driver")
    assert {row["check"] for row in task["result"]["preflight"]} >= {
        "operating system",
        "python",
        "driver",
        "appliance",
        "data port",
        "clock",
        "disk",
    }
    assert_nothing_left(machine, before)


def test_wrong_user_or_password_is_rejected(appliance: Appliance, machine: Target) -> None:
    before = machine.tree()
    assert_failed(
        appliance.enrol(machine, username="absent-user"), "sign_in_refused", "absent-user"
    )
    assert_failed(appliance.enrol(machine, password="wrong"), "sign_in_refused")
    assert_nothing_left(machine, before)


def test_missing_sudo_rights_are_rejected(appliance: Appliance, machine: Target) -> None:
    before = machine.tree()
    assert_failed(appliance.enrol(machine, username=PLAIN_USER), "sign_in_refused", "sudo")
    assert_failed(appliance.enrol(machine, sudo_password="wrong"), "sign_in_refused", "sudo")
    assert_nothing_left(machine, before)


def test_banner_of_the_shell_is_ignored(appliance: Appliance, machine: Target) -> None:
    """The banner contains the prefix of the installer's messages, too."""
    assert appliance.enrol(machine, username=NOISY_USER)["state"] == "succeeded"


def test_slow_host_is_enrolled_and_silent_host_is_unreachable(
    appliance: Appliance, machine: Target
) -> None:
    slow, silent = (
        FaultyProxy(machine.port, reply_delay_seconds=2),
        FaultyProxy(machine.port, reply_delay_seconds=3600),
    )
    try:
        assert appliance.enrol(machine, port=slow.port)["state"] == "succeeded"
        with pytest.raises(ApiError) as error:
            appliance.api.request(
                "POST", "nodes/enrol-ssh", appliance.body(machine, port=silent.port)
            )
        assert error.value.code == "host_unreachable"
    finally:
        slow.close()
        silent.close()


def test_machine_without_python_fails_in_the_preflight(
    appliance: Appliance, machine: Target
) -> None:
    for program in machine.path("/usr/bin").glob("python3*"):
        program.rename(program.with_name("hidden-" + program.name))
    before = machine.tree()
    assert_failed(appliance.enrol(machine), "preflight_failed", "no Python from 3.10 to 3.13")
    assert_nothing_left(machine, before)


def test_full_disk_is_rolled_back(appliance: Appliance) -> None:
    """The disk has enough bytes, so the checks pass, but too few inodes for the files."""
    with target(small="/opt") as machine:
        before = machine.tree()
        assert_failed(appliance.enrol(machine), "installation_failed", "No space left on device")
        assert_nothing_left(machine, before)


def test_incomplete_installation_is_rolled_back_first(
    appliance: Appliance, machine: Target
) -> None:
    """Folders without a journal are left alone; those with one are rolled back."""
    before = machine.tree()
    home = machine.path("/opt/busbar")
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "leftover").write_text("")
    assert_failed(appliance.enrol(machine), "installation_failed", "does not belong to Busbar")
    assert (home / "lib" / "leftover").exists()
    (home / "journal.json").write_text('{"made": ["/opt/busbar"], "committed": false}')
    task = appliance.enrol(machine)
    assert task["state"] == "succeeded" and not (home / "lib" / "leftover").exists(), task
    assert machine.run("/opt/busbar/busbar-node", "remove").returncode == 0
    assert_nothing_left(machine, before)


@pytest.mark.parametrize(
    "cut_after_bytes", [400_000, 13_000_000], ids=["while sending", "while installing"]
)
def test_cut_connection_is_rolled_back_on_both_sides(
    appliance: Appliance, machine: Target, cut_after_bytes: int
) -> None:
    before = machine.tree()
    if cut_after_bytes > 1_000_000:
        version = ".".join(machine.run("python3", "--version").stdout.split()[1].split(".")[:2])
        total = sum(
            f.stat().st_size for f in (ROOT / "build" / "bundle" / "wheels" / version).iterdir()
        )
        cut_after_bytes = total + 1_000_000
    proxy = FaultyProxy(machine.port, cut_after_bytes=cut_after_bytes)
    try:
        task = appliance.enrol(machine, port=proxy.port)
        assert proxy.was_cut.is_set()
        assert_failed(task, "host_unreachable")
    finally:
        proxy.close()
    assert_nothing_left(machine, before)
    assert appliance.api.items("nodes") == [], "the appliance must remove the node, too"


def test_second_enrolment_of_a_machine_is_rejected(appliance: Appliance, machine: Target) -> None:
    name = appliance.enrol(machine)["result"]["node"]
    assert_failed(appliance.enrol(machine), "installation_failed", f"is {name} already")
    nodes = appliance.api.items("nodes")
    assert [n["name"] for n in nodes] == [name] and nodes[0]["reachable"], (
        "the first enrolment must not be disturbed"
    )


def test_machines_with_equal_names_get_different_node_names(
    appliance: Appliance, machine: Target
) -> None:
    with target() as other:
        first, second = (
            appliance.enrol(machine)["result"]["node"],
            appliance.enrol(other)["result"]["node"],
        )
        assert second == f"{first}-2" and len(appliance.api.items("nodes")) == 2


def test_changed_host_key_is_rejected_until_forgotten(
    appliance: Appliance, machine: Target
) -> None:
    assert_failed(appliance.enrol(machine, password="wrong"), "sign_in_refused")
    machine.new_host_key()
    for more in (
        {},
        {
            "host_key_sha256": machine.run(
                "ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub"
            ).stdout.split()[1]
        },
    ):
        with pytest.raises(ApiError) as error:
            appliance.api.request("POST", "nodes/enrol-ssh", appliance.body(machine) | more)
        assert error.value.code == "host_key_changed", (
            "a confirmation must not replace a pinned key"
        )
    appliance.clean_up()
    assert appliance.enrol(machine)["state"] == "succeeded"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_restart_of_the_appliance_fails_the_enrolment(
    appliance: Appliance, machine: Target, how: signal.Signals
) -> None:
    before = machine.tree()
    slow = FaultyProxy(machine.port, reply_delay_seconds=3)
    try:
        task = appliance.start_enrolment(machine, port=slow.port)
        process = appliance.stack.appliance.process
        assert process is not None
        begun = time.monotonic()
        process.send_signal(how)
        process.wait()
        assert time.monotonic() - begun < 10
        ended = appliance.wait_for_end(task)
    finally:
        slow.close()
    assert_failed(ended, "interrupted", "credentials needed again")
    assert_nothing_left(machine, before)
