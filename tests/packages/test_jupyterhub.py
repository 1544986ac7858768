"""The kernel of the guide in a JupyterHub with accounts of the machine."""

from __future__ import annotations

import json
import os
import secrets
import urllib.request
from typing import Any

import pytest

from deploy.supervisor import wait_for
from tests.packages.accounts import Account
from tests.packages.guide import section
from tests.packages.machines import Machine
from tests.packages.test_python_wrapper import PROGRAM, share_of
from tests.ports import port
from tests.remoting.node import EVENT_SECONDS
from tests.system.conftest import Pool

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
PACKAGES = ("jupyterhub", "jupyter-notebook", "python3-ipykernel")
CONFIGURATION = """\
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {port} + 1
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:" + str({port} + 2)
c.JupyterHub.services = [{{"name": "test", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [
    {{
        "name": "test",
        "services": ["test"],
        "scopes": ["admin:users", "admin:servers", "access:servers"],
    }}
]
"""
ASK_KERNEL = """\
import sys
from jupyter_client import BlockingKernelClient

client = BlockingKernelClient(connection_file=sys.argv[1])
client.load_connection_file()
client.start_channels(hb=False)  # its beats are late on a busy machine
client.wait_for_ready(timeout=60)
client.execute_interactive(sys.argv[2], timeout=60)
"""


class Hub:
    """A hub of a machine, and its REST API."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._port, self._token = machine, port(460), secrets.token_hex(32)

    def start(self) -> None:
        self._machine.path("/root/hub.py").write_text(
            CONFIGURATION.format(port=self._port, token=self._token)
        )
        unit = ("systemd-run", "--unit=hub", "--working-directory=/root")
        self._machine.run_well(*unit, "jupyterhub", "-f", "/root/hub.py")
        self.wait("the hub", self._is_up)

    def _is_up(self) -> bool:
        try:
            return bool(self.request("GET", "hub/api/"))
        except OSError:
            return False

    def wait(self, what: str, done: Any) -> None:
        wait_for(what, done, self._machine.path("/root/hub.py"), EVENT_SECONDS)

    def request(self, method: str, path: str, **body: Any) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/{path}",
            data=json.dumps(body).encode() if body else None,
            headers={"Authorization": f"token {self._token}"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=EVENT_SECONDS) as response:
            return json.loads(response.read() or b"null")

    def start_kernel(self, user: str, name: str) -> str:
        """Start the server of a user and a kernel in it. Return the id of the kernel."""
        self.request("POST", f"hub/api/users/{user}")
        self.request("POST", f"hub/api/users/{user}/server")
        self.wait("the server", lambda: self.request("GET", f"hub/api/users/{user}")["server"])
        return str(self.request("POST", f"user/{user}/api/kernels", name=name)["id"])


@pytest.fixture(scope="module")
def hub(server: Machine) -> Hub:
    server.run_well("apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES)
    found = Hub(server)
    found.start()
    return found


def test_kernel_of_the_hub_runs_on_a_gpu_of_its_user(
    server: Machine, hub: Hub, ada: Account, pool: Pool
) -> None:
    command = section("JupyterHub").split("`")[1]
    assert "/opt/jupyter/bin/python" in command
    server.run_well(*command.replace("/opt/jupyter/bin/python", "/usr/bin/python3").split())
    kernel = hub.start_kernel(ada.name, "busbar")
    connection = f"{ada.home}/.local/share/jupyter/runtime/kernel-{kernel}.json"
    output = server.run_well("python3", "-c", ASK_KERNEL, connection, PROGRAM)
    assert json.loads(output)["total_bytes"] == share_of(pool, 20)
    (allocation,) = pool.api.items("allocations", state="active")
    assert allocation["owner"] == ada.name
    hub.request("DELETE", f"user/{ada.name}/api/kernels/{kernel}")
    hub.wait("the release", lambda: not pool.api.items("partitions"))
