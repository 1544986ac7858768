"""Registration over a real OpenSSH server, on machines of their own; and the twelve ways in which it goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import BUILD, ROOT, wait_for
from remoting.cli.api import ApiError
from tests.fleet.conftest import Appliance, needs_root
from tests.fleet.proxy import Road
from tests.fleet.target import NOISY, OPERATOR, OUTSIDER, PASSWORD, Target, target

pytestmark = [pytest.mark.system, needs_root]

Tree = dict[str, tuple[int, int, int, str]]
DEMO = str(BUILD / "demo" / "gpu_demo")


def nothing_is_left(machine: Target, before: Tree) -> None:
    """The machine undoes by itself when the connection is gone, so this may take it a moment."""
    wait_for(
        "the end of our processes there",
        lambda: not machine.processes(),
        machine.folder / "sshd.log",
        30,
    )
    after = machine.tree()
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    assert changed == []


def refused(task: dict[str, Any], code: str, *words: str) -> None:
    assert task["state"] == "failed" and task["error"]["code"] == code, task
    for word in words:
        assert word in task["error"]["detail"], task["error"]


def test_a_machine_becomes_a_node_runs_a_program_and_is_clean_after_removal(
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
    assert machine.path("/var/lib/busbar/agent.key").stat().st_mode & 0o077 == 0

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
    assert done.returncode == 0 and "are right" in done.stdout, done.stderr + str(
        appliance.api.items("events")[:5]
    )

    node = appliance.api.named("nodes", task["result"]["node"])
    wait_for(
        "the release",
        lambda: not appliance.api.items("partitions"),
        appliance.stack.logs / "appliance.log",
        30,
    )
    appliance.api.request("DELETE", f"nodes/{node['id']}")
    assert machine.run("/opt/busbar/busbar-node", "remove").returncode == 0
    nothing_is_left(machine, before)
    secrets_are_nowhere(appliance)


def secrets_are_nowhere(appliance: Appliance) -> None:
    """The canary: not in a task, an event, the database, a log, or a file of the appliance."""
    for path in ("tasks", "events"):
        assert PASSWORD not in str(appliance.api.items(path))
    for folder in (appliance.stack.appliance_data, appliance.stack.logs):
        for file in (f for f in folder.rglob("*") if f.is_file()):
            assert PASSWORD.encode() not in file.read_bytes(), file


def test_a_private_key_and_sudo_without_a_password_do_as_well(
    appliance: Appliance, machine: Target, tmp_path: Path
) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "words", "-f", tmp_path / "key"], check=True
    )
    ssh = machine.path(f"/home/{NOISY}/.ssh")
    ssh.mkdir(mode=0o700)
    (ssh / "authorized_keys").write_text((tmp_path / "key.pub").read_text())
    assert machine.run("chown", "-R", f"{NOISY}:{NOISY}", f"/home/{NOISY}/.ssh").returncode == 0
    key = (tmp_path / "key").read_text()
    refused(
        appliance.enrol(machine, username=NOISY, password="", private_key=key, passphrase="wrong"),
        "sign_in_refused",
        "passphrase",
    )
    task = appliance.enrol(
        machine, username=NOISY, password="", private_key=key, passphrase="words"
    )
    assert task["state"] == "succeeded", task


def test_the_command_registers_a_machine(appliance: Appliance, machine: Target) -> None:
    env = os.environ | {"BUSBAR_CONTEXT": str(appliance.context), "PYTHONPATH": str(ROOT)}
    code = (
        f"import getpass; getpass.getpass = lambda _: {PASSWORD!r}\nimport sys; sys.argv = ['busbar', 'node', 'add', "
        f"'ssh://{OPERATOR}@127.0.0.1:{machine.port}', '--software-gpus', '1']\nfrom remoting.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        input="y\n",
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (
        done.returncode == 0 and "is node" in done.stderr and "ok    python: 3." in done.stderr
    ), done.stderr
    assert len(appliance.api.items("nodes")) == 1


def test_a_file_that_an_undo_forgot_would_be_noticed(machine: Target) -> None:
    """The oracle itself: a planted left-over of each kind is found."""
    before = machine.tree()
    for plant, clean in (
        (("touch", "/etc/busbar.conf"), ("rm", "/etc/busbar.conf")),
        (("mkdir", "-p", "/opt/busbar/lib"), ("rm", "-r", "/opt/busbar")),
        (("ln", "-s", "/x", "/usr/local/bin/busbar"), ("rm", "/usr/local/bin/busbar")),
        (("chmod", "0777", "/opt"), ("chmod", "0755", "/opt")),
    ):
        assert machine.run(*plant).returncode == 0
        with pytest.raises(AssertionError):
            nothing_is_left(machine, before)
        assert machine.run(*clean).returncode == 0
    nothing_is_left(machine, before)


def test_a_machine_without_a_driver_is_told_so_before_anything_is_made(
    appliance: Appliance, machine: Target
) -> None:
    before = machine.tree()
    task = appliance.enrol(machine, software_gpus=0)
    refused(task, "preflight_failed", "driver: no libcuda.so.1", "Install NVIDIA's driver")
    assert {row["check"] for row in task["result"]["preflight"]} >= {
        "operating system",
        "python",
        "driver",
        "appliance",
        "data port",
        "clock",
        "disk",
    }
    nothing_is_left(machine, before)


# ---- the twelve ---


def test_1_a_wrong_user(appliance: Appliance, machine: Target) -> None:
    before = machine.tree()
    refused(appliance.enrol(machine, username="nobody-here"), "sign_in_refused", "nobody-here")
    refused(appliance.enrol(machine, password="wrong"), "sign_in_refused")
    nothing_is_left(machine, before)


def test_2_sudo_denied(appliance: Appliance, machine: Target) -> None:
    before = machine.tree()
    refused(appliance.enrol(machine, username=OUTSIDER), "sign_in_refused", "sudo")
    refused(appliance.enrol(machine, sudo_password="wrong"), "sign_in_refused", "sudo")
    nothing_is_left(machine, before)


def test_3_banner_noise(appliance: Appliance, machine: Target) -> None:
    """A shell that prints, also our own word, confuses nobody."""
    assert appliance.enrol(machine, username=NOISY)["state"] == "succeeded"


def test_4_a_slow_host(appliance: Appliance, machine: Target) -> None:
    slow, silent = (
        Road(machine.port, answer_delay_seconds=2),
        Road(machine.port, answer_delay_seconds=3600),
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


def test_5_no_python(appliance: Appliance, machine: Target) -> None:
    for program in machine.path("/usr/bin").glob("python3*"):
        program.rename(program.with_name("hidden-" + program.name))
    before = machine.tree()
    refused(appliance.enrol(machine), "preflight_failed", "no Python from 3.10 to 3.13")
    nothing_is_left(machine, before)


def test_6_a_full_disk(appliance: Appliance) -> None:
    """Enough bytes, too few files: the checks pass, and then the disk is full in the middle."""
    with target(small="/opt") as machine:
        before = machine.tree()
        refused(appliance.enrol(machine), "installation_failed", "No space left on device")
        nothing_is_left(machine, before)


def test_7_a_half_installed_agent(appliance: Appliance, machine: Target) -> None:
    """What an earlier installation left is undone first; what is not ours is not touched."""
    before = machine.tree()
    home = machine.path("/opt/busbar")
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "half").write_text("of it")
    refused(appliance.enrol(machine), "installation_failed", "not ours")
    assert (home / "lib" / "half").exists()
    (home / "journal.json").write_text('{"made": ["/opt/busbar"], "committed": false}')
    task = appliance.enrol(machine)
    assert task["state"] == "succeeded" and not (home / "lib" / "half").exists(), task
    assert machine.run("/opt/busbar/busbar-node", "remove").returncode == 0
    nothing_is_left(machine, before)


@pytest.mark.parametrize(
    "cut_after_bytes", [400_000, 13_000_000], ids=["while sending", "while installing"]
)
def test_8_the_network_is_cut(appliance: Appliance, machine: Target, cut_after_bytes: int) -> None:
    before = machine.tree()
    if cut_after_bytes > 1_000_000:
        version = ".".join(machine.run("python3", "--version").stdout.split()[1].split(".")[:2])
        total = sum(
            f.stat().st_size for f in (ROOT / "build" / "bundle" / "wheels" / version).iterdir()
        )
        cut_after_bytes = total + 1_000_000
    road = Road(machine.port, cut_after_bytes=cut_after_bytes)
    try:
        task = appliance.enrol(machine, port=road.port)
        assert road.was_cut.is_set()
        refused(task, "host_unreachable")
    finally:
        road.close()
    nothing_is_left(machine, before)
    assert appliance.api.items("nodes") == [], "the node that was half there is gone here as well"


def test_9_the_same_machine_twice(appliance: Appliance, machine: Target) -> None:
    name = appliance.enrol(machine)["result"]["node"]
    refused(appliance.enrol(machine), "installation_failed", f"is {name} already")
    nodes = appliance.api.items("nodes")
    assert [n["name"] for n in nodes] == [name] and nodes[0]["reachable"], (
        "the first registration goes on undisturbed"
    )


def test_10_two_machines_with_one_name(appliance: Appliance, machine: Target) -> None:
    with target() as other:
        first, second = (
            appliance.enrol(machine)["result"]["node"],
            appliance.enrol(other)["result"]["node"],
        )
        assert second == f"{first}-2" and len(appliance.api.items("nodes")) == 2


def test_11_a_changed_host_key(appliance: Appliance, machine: Target) -> None:
    refused(appliance.enrol(machine, password="wrong"), "sign_in_refused")
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
            "not even a confirmation goes past a pinned key"
        )
    appliance.forget()
    assert appliance.enrol(machine)["state"] == "succeeded"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_12_the_appliance_is_restarted(
    appliance: Appliance, machine: Target, how: signal.Signals
) -> None:
    before = machine.tree()
    slow = Road(machine.port, answer_delay_seconds=3)
    try:
        task = appliance.begin(machine, port=slow.port)
        process = appliance.stack.appliance.process
        assert process is not None
        begun = time.monotonic()
        process.send_signal(how)
        process.wait()
        assert time.monotonic() - begun < 10
        ended = appliance.finish(task)
    finally:
        slow.close()
    refused(ended, "interrupted", "credentials needed again")
    nothing_is_left(machine, before)
