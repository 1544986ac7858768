"""An appliance without a node, and machines that may become one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import Stack, wait_for
from remoting.cli.api import Api, ApiError, Away, Context, save_context
from tests.fleet.target import OPERATOR, PASSWORD, Target, target

needs_root = pytest.mark.skipif(
    os.geteuid() != 0,
    reason="makes root file systems and namespaces of its own: run ./test as root, as CI does",
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
            "username": OPERATOR,
            "password": PASSWORD,
            "software_gpus": 1,
        } | more

    def begin(self, machine: Target, **more: Any) -> dict[str, Any]:
        """Confirms the key that the machine shows, as an operator would; the running task."""
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

    def finish(self, task: dict[str, Any], seconds: float = 60) -> dict[str, Any]:
        ended: dict[str, Any] = {}

        def over() -> bool:
            try:
                ended.update(self.api.request("GET", f"tasks/{task['id']}"))
            except Away:
                return False
            return ended["state"] != "running"

        wait_for("the task", over, self.stack.logs / "appliance.log", seconds)
        return ended

    def enrol(self, machine: Target, **more: Any) -> dict[str, Any]:
        return self.finish(self.begin(machine, **more))

    def forget(self) -> None:
        """No node and no pinned key: as before the test."""
        for node in self.api.items("nodes"):
            self.api.request("DELETE", f"nodes/{node['id']}")
        for key in self.api.items("ssh-host-keys"):
            self.api.request("DELETE", f"ssh-host-keys/{key['id']}")


@pytest.fixture(scope="session")
def appliance_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    folder = tmp_path_factory.mktemp("appliance")
    os.environ["BUSBAR_SSH_SECONDS"] = "10"
    stack = Stack(folder / "data", base_port=33443)
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
def appliance(appliance_of_the_session: Appliance) -> Iterator[Appliance]:
    yield appliance_of_the_session
    appliance_of_the_session.forget()


@pytest.fixture
def machine() -> Iterator[Target]:
    with target() as t:
        yield t
