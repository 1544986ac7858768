"""The Debian package of a node on separate machines, with systemd and without."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deploy.bundle import BUNDLE
from deploy.node_package import debian_package
from deploy.supervisor import BUILD, ROOT, wait_for
from nodes.version import AGENT_VERSION
from tests.file_tree import tree
from tests.fleet.conftest import Appliance, needs_root
from tests.fleet.target import Target, processes_in, target
from tests.packages.machines import Machine
from tests.packages.systemd_machines import systemd_machine
from tests.remoting.node import EVENT_SECONDS

pytestmark = [pytest.mark.system, pytest.mark.long, needs_root]

NEWER = f"{AGENT_VERSION}+next"
OF_OTHERS = ("var/lib/dpkg/", "var/log/", "var/cache/", "var/lib/systemd/", "run/", "tmp/")
"""Folders in which dpkg and systemd write while the machine runs."""
OF_ONE_NODE = ("service.pid", "service.log", "journal.json")
"""Files below /opt/busbar whose contents differ between equal installations."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return debian_package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with programs of another version."""
    folder = tmp_path_factory.mktemp("newer")
    shutil.copytree(BUNDLE / "programs", folder / "programs")
    (folder / "wheels").symlink_to(BUNDLE / "wheels")
    version = folder / "programs" / "nodes" / "version.py"
    version.write_text(version.read_text().replace(AGENT_VERSION, NEWER))
    (folder / "programs" / "digest").write_text("of the newer version")
    return debian_package(folder, folder, NEWER)


@pytest.fixture(params=["systemd", "without systemd"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target | Machine]:
    started = systemd_machine(tmp_path / "machine") if request.param == "systemd" else target()
    with started as machine:
        yield machine


def log_of(appliance: Appliance) -> Path:
    return appliance.stack.logs / "appliance.log"


def install(machine: Target | Machine, package: Path) -> None:
    shutil.copy2(package, machine.path("/root/node.deb"))
    done = machine.run("dpkg", "-i", "/root/node.deb")
    assert done.returncode == 0, done.stdout + done.stderr
    machine.path("/root/node.deb").unlink()


def purge(machine: Target | Machine) -> None:
    done = machine.run("dpkg", "--purge", "busbar-node")
    assert done.returncode == 0, done.stdout + done.stderr


def join(machine: Target | Machine, appliance: Appliance, again: str = "") -> str:
    """Make the machine a node, or the node `again`, and wait for its GPU. Return the id."""
    body = {"node_id": again} if again else {}
    token = appliance.api.request("POST", "enrolment-tokens", body)["token"]
    before = {str(node["id"]) for node in appliance.api.items("nodes")} - {again}
    command = "busbar-node join --address 127.0.0.1 --software-gpus 1"
    done = machine.run("sh", "-c", f"echo {token} | {command}")
    assert done.returncode == 0, done.stdout + done.stderr
    (node,) = {str(node["id"]) for node in appliance.api.items("nodes")} - before

    def reports() -> bool:
        found = appliance.api.request("GET", f"nodes/{node}")
        return bool(found["reachable"] and appliance.api.items("gpus"))

    wait_for("the node", reports, log_of(appliance), EVENT_SECONDS)
    return node


@contextmanager
def working(appliance: Appliance) -> Iterator[subprocess.Popen[str]]:
    """Run a program on the node that works until it is terminated."""
    command = [sys.executable, "-m", "remoting.cli.main", "run", "-p", "25", "--timeout", "60s"]
    process = subprocess.Popen(
        [*command, "--", str(BUILD / "demo" / "gpu_demo"), "work", "1000"],
        env=os.environ | {"BUSBAR_CONTEXT": str(appliance.context), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "working\n", process.communicate()[1]
        yield process
    finally:
        process.terminate()
        process.wait(EVENT_SECONDS)
        wait_for("the release", lambda: not appliance.api.items("partitions"), log_of(appliance))


def version_of(appliance: Appliance, node: str) -> str:
    return str(appliance.api.request("GET", f"nodes/{node}")["agent_version"])


def running(appliance: Appliance) -> list[str]:
    return [session["id"] for session in appliance.api.items("sessions", state="running")]


def launchers(machine: Target | Machine) -> list[str]:
    """Return the process ids of the machine's launchers."""
    found = []
    for process in machine.path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "comm").read_text() == "busbar-launcher\n":
                found.append(process.name)
    return found


def test_upgraded_node_keeps_its_sessions(
    appliance: Appliance, server: Target | Machine, package: Path, newer: Path
) -> None:
    install(server, package)
    node = join(server, appliance)
    assert version_of(appliance, node) == AGENT_VERSION
    log = log_of(appliance)
    with working(appliance) as program:
        wait_for("the session", lambda: len(running(appliance)) == 1, log, EVENT_SECONDS)
        sessions, launcher = running(appliance), launchers(server)

        install(server, newer)
        wait_for("the new agent", lambda: version_of(appliance, node) == NEWER, log, EVENT_SECONDS)
        assert len(launchers(server)) == 1 and launchers(server) != launcher
        assert running(appliance) == sessions
        program.terminate()
        out, err = program.communicate(timeout=EVENT_SECONDS)
        assert program.returncode == 0 and "correct after" in out, err
    appliance.run_demo()


def test_stopped_node_stays_stopped(
    appliance: Appliance, server: Target | Machine, package: Path, newer: Path
) -> None:
    install(server, package)
    join(server, appliance)
    assert server.run("busbar-node", "stop").returncode == 0
    install(server, newer)
    assert launchers(server) == []
    assert server.path("/opt/busbar/digest").read_text() == "of the newer version"


def test_package_upgrades_node_that_was_enrolled_over_ssh(
    appliance: Appliance, machine: Target, newer: Path
) -> None:
    assert appliance.enrol(machine)["state"] == "succeeded"
    (node,) = appliance.api.items("nodes")
    install(machine, newer)
    wait_for(
        "the new agent",
        lambda: version_of(appliance, node["id"]) == NEWER,
        log_of(appliance),
        EVENT_SECONDS,
    )


def test_package_that_is_purged_leaves_nothing(
    appliance: Appliance, server: Target | Machine, package: Path
) -> None:
    before = tree(server.path("/"))
    install(server, package)
    join(server, appliance)
    purge(server)
    assert processes_in(server.path("/proc")) == []
    after = tree(server.path("/"))
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert not {name for name in changed if not name.startswith(OF_OTHERS)}
    assert not {name for name in after if "busbar" in name}


def test_purged_machine_joins_again_as_another_node_or_as_the_same(
    appliance: Appliance, server: Target | Machine, package: Path
) -> None:
    install(server, package)
    first = join(server, appliance)
    appliance.api.request("DELETE", f"nodes/{first}")
    purge(server)
    install(server, package)
    second = join(server, appliance)
    assert second != first
    appliance.run_demo()

    purge(server)
    install(server, package)
    assert join(server, appliance, again=second) == second
    appliance.run_demo()


def test_package_is_installed_after_an_interrupted_enrolment(
    machine: Target, package: Path
) -> None:
    machine.path("/opt/busbar").mkdir()
    journal = machine.path("/opt/busbar/journal.json")
    journal.write_text('{"made": ["/opt/busbar"], "committed": false}')
    install(machine, package)
    assert [path.name for path in journal.parent.iterdir()] == [journal.name]
    purge(machine)
    assert not machine.path("/opt/busbar").exists()


def installed_files(machine: Target) -> dict[str, tuple[int, bytes]]:
    """Return modes and contents of the files of the node."""
    home = machine.path("/opt/busbar")
    return {
        str(path.relative_to(home)): (path.stat().st_mode, path.read_bytes())
        for path in home.rglob("*")
        if path.is_file() and path.name not in OF_ONE_NODE
    }


def test_joined_machine_is_as_one_that_was_enrolled_over_ssh(
    appliance: Appliance, machine: Target, package: Path
) -> None:
    with target() as other:
        assert appliance.enrol(other)["state"] == "succeeded"
        over_ssh = installed_files(other)
    install(machine, package)
    join(machine, appliance)
    assert len(over_ssh) > 100
    assert installed_files(machine) == over_ssh


def test_software_that_does_not_run_leaves_the_node_as_it_is(
    appliance: Appliance, machine: Target, package: Path, tmp_path: Path
) -> None:
    install(machine, package)
    join(machine, appliance)
    before, launcher = installed_files(machine), launchers(machine)
    broken = machine.path("/usr/lib/busbar-node/bin/busbar-session")
    broken.write_text("#!/bin/sh\necho no library >&2; exit 1\n")
    done = machine.run("busbar-node", "upgrade")
    assert done.returncode == 1
    assert re.search("busbar-session does not run on this machine: no library", done.stdout)
    assert (installed_files(machine), launchers(machine)) == (before, launcher)
