"""A department that the guide has set up: its appliance, directory and accounts."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import Stack, wait_for
from remoting.cli.api import Api, Context
from tests.appliance import directory_server
from tests.appliance.directory_server import (
    BASE,
    PASSWORD,
    SERVICE_PASSWORD,
    DirectoryServer,
    dn_of,
)
from tests.migrated import place_migrated_databases
from tests.ports import port
from tests.system.department import guide
from tests.system.department.guide import NEW_PASSWORD, Desk

PHYSICISTS = ("ada", "ben", "carol", "dan", "eve")
CHEMISTS = ("fay", "gustav", "hana", "ivan", "june")
HELD = {"hold": "lifetime", "lifetime_seconds": 3600}
LEADS = {"physics-leads": ["ada"], "chemistry-leads": ["fay"]}


@dataclass
class Department:
    stack: Stack
    desk: Desk
    directory: DirectoryServer
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def ca_pem(self) -> str:
        return (self.stack.appliance_data / "ca.pem").read_text()

    @property
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.ca_pem)

    def api(self, account: str) -> Api:
        """Return a connection of an account of the guide, or of a person of the directory."""
        return Api(Context(self.stack.url, self.token(account), self.ca_pem))

    def token(self, account: str) -> str:
        if account not in self.tokens:
            self.tokens[account] = self._find_token(account)
        return self.tokens[account]

    def _find_token(self, account: str) -> str:
        variables = self.desk.variables.get(account, {})
        if "BUSBAR_TOKEN" in variables:
            return variables["BUSBAR_TOKEN"]
        if self.desk.context(account).exists():
            return str(json.loads(self.desk.context(account).read_text())["token"])
        first, *new = self.desk.passwords.get(account, [PASSWORD])
        body = {"username": account, "password": first}
        if new:  # the account has a one-time password
            body["new_password"] = new[0]
        anonymous = Api(Context(self.stack.url, "", self.ca_pem))
        return str(anonymous.request("POST", "login", body)["token"])

    def allocate(self, account: str, project: str, **values: Any) -> dict[str, Any]:
        """Return an active allocation, which is kept without a client on a slow machine, too."""
        api = self.api(account)
        request = {"percent": 5, "project": project, **HELD, **values}
        made: dict[str, Any] = api.request("POST", "allocations", request)
        self.wait("the allocation", lambda: self.state(made["id"]) == "active", 60)
        return made

    def release(self, account: str, allocation_id: str) -> None:
        self.api(account).request("DELETE", f"allocations/{allocation_id}")
        self.wait("the release", lambda: self.state(allocation_id) == "released", 60)

    def state(self, allocation_id: str) -> str:
        return str(self.api("admin").request("GET", f"allocations/{allocation_id}")["state"])

    def wait(self, description: str, done: Any, seconds: float = 30) -> None:
        wait_for(description, done, self.stack.logs / "appliance.log", seconds)


def add_people(directory: DirectoryServer) -> None:
    """Add ten people and their four groups to the directory."""
    for name in (*PHYSICISTS, *CHEMISTS):
        directory.add(name)
    groups = {"physics": PHYSICISTS, "chemistry": CHEMISTS, **LEADS}
    with directory.administered() as connection:
        for name, members in groups.items():
            values = {"cn": name, "member": [dn_of(m) for m in members]}
            connection.add(f"cn={name},ou=groups,{BASE}", "groupOfNames", values)


def started_stack(folder: Path, replaced: dict[str, str]) -> Iterator[Stack]:
    environment = guide.directory_settings(replaced) | {"BUSBAR_LDAP_COMPARE_SECONDS": "3"}
    stack = Stack(folder / "data", base_port=port(550), environment=environment)
    place_migrated_databases(stack.appliance_data)
    try:
        stack.start_appliance()
        stack.start_node()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="package")
def department(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Department]:
    """Follow the whole guide on a new appliance."""
    folder = tmp_path_factory.mktemp("department")
    secret = folder / "ldap-password"
    secret.write_text(SERVICE_PASSWORD + "\n")
    secret.chmod(0o600)
    with directory_server.started(folder / "directory") as directory:
        add_people(directory)
        replaced = {
            "ldaps://ldap.example.org": directory.url,
            "/etc/busbar/ldap-ca.pem": str(directory.folder / "ca.pem"),
            "/etc/busbar/ldap-password": str(secret),
        }
        for stack in started_stack(folder, replaced):
            yield follow_guide(stack, folder, replaced, directory)


def follow_guide(
    stack: Stack, folder: Path, replaced: dict[str, str], directory: DirectoryServer
) -> Department:
    one_time = (stack.appliance_data / "initial-admin-password").read_text().strip()
    replaced |= {
        "https://appliance.example.org:8443": stack.url,
        "FINGERPRINT": stack.ca_fingerprint(),
        "/etc/busbar/ca.pem": str(stack.appliance_data / "ca.pem"),
    }
    work = folder / "work"
    os.makedirs(work)
    passwords = {"admin": [one_time, NEW_PASSWORD, NEW_PASSWORD], "ada": [PASSWORD]}
    made = Department(stack, Desk(work, replaced, passwords), directory)
    for step in guide.steps():
        made.desk.perform(step)
        if step.account == "admin" and "login" in step.command:
            made.wait("the GPUs", lambda: len(made.api("admin").items("gpus", present="true")) == 2)
    return made
