"""Fixtures: an appliance without nodes, and a target machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import BUILD, ROOT, Stack, wait_for
from remoting.cli.api import Api, ApiError, ApplianceUnreachable, Context, save_context
from tests.fleet.target import PASSWORD, SUDO_USER, Target, target
from tests.migrated import place_migrated_databases
from tests.ports import port

needs_root = pytest.mark.skipif(
    os.geteuid() != 0,
    reason="creates root file systems and namespaces: run ./test as root, as CI does",
)


@dataclass
class Appliance:
    stack: Stack
    context: Path

    @property
    def api(self) -> Api:
        return Api(Context(**json.loads(self.context.read_text())))

    def body(self, machine: Target, **more: Any) -> dict[str, Any]:
        return {
            "address": "127.0.0.1",
            "port": machine.port,
            "username": SUDO_USER,
            "password": PASSWORD,
            "software_gpus": 1,
        } | more

    def start_enrolment(self, machine: Target, **more: Any) -> dict[str, Any]:
        """Confirm the machine's host key and return the running task."""
        body = self.body(machine, **more)
        try:
            return self.api.request("POST", "nodes/enrol-ssh", body)
        except ApiError as error:
            assert error.code == "host_key_unconfirmed", error
            return self.api.request(
                "POST",
                "nodes/enrol-ssh",
                body | {"host_key_sha256": error.fields["host_key_sha256"]},
            )

    def wait_for_end(self, task: dict[str, Any], seconds: float = 60) -> dict[str, Any]:
        ended: dict[str, Any] = {}

        def has_ended() -> bool:
            try:
                ended.update(self.api.request("GET", f"tasks/{task['id']}"))
            except ApplianceUnreachable:
                return False
            return bool(ended["state"] != "running")

        wait_for("the task", has_ended, self.stack.logs / "appliance.log", seconds)
        return ended

    def enrol(self, machine: Target, **more: Any) -> dict[str, Any]:
        return self.wait_for_end(self.start_enrolment(machine, **more))

    def run_demo(self) -> None:
        """Run the demo program on a quarter of a GPU and wait until its allocation is released."""
        env = os.environ | {"BUSBAR_CONTEXT": str(self.context), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "remoting.cli.main", "run", "-p", "25", "--timeout", "30s"]
        command += ["--", str(BUILD / "demo" / "gpu_demo"), "add"]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0 and "are correct" in done.stdout, done.stderr + str(
            self.api.items("events")[:5]
        )
        log = self.stack.logs / "appliance.log"
        wait_for("the release", lambda: not self.api.items("partitions"), log, 30)

    def clean_up(self) -> None:
        """Remove all nodes and forget all host keys."""
        for node in self.api.items("nodes"):
            self.api.request("DELETE", f"nodes/{node['id']}")
        for key in self.api.items("ssh-host-keys"):
            self.api.request("DELETE", f"ssh-host-keys/{key['id']}")


@pytest.fixture(scope="package")
def session_appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    folder = tmp_path_factory.mktemp("appliance")
    environment = {"BUSBAR_SSH_SECONDS": "10", "BUSBAR_SSH_NETWORKS": "127.0.0.0/8"}
    stack = Stack(folder / "data", base_port=port(400), environment=environment)
    place_migrated_databases(stack.appliance_data)
    try:
        stack.start_appliance()
        token = stack.manage(
            "create_token", "--role", "administrator", "--hours", "1"
        ).splitlines()[-1]
        context = save_context(
            Context(stack.url, token, (stack.appliance_data / "ca.pem").read_text()),
            folder / "context.json",
        )
        yield Appliance(stack, context)
    finally:
        stack.stop()


@pytest.fixture
def appliance(session_appliance: Appliance) -> Iterator[Appliance]:
    yield session_appliance
    session_appliance.clean_up()


@pytest.fixture
def machine() -> Iterator[Target]:
    with target() as t:
        yield t
