"""Fixtures: the installed collection, and its modules with the connection of an administrator."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from deploy.collection import write_collection
from tests.ansible.commands import BIN, environment
from tests.ansible.module_runner import RunModule, module_runner
from tests.fleet.conftest import Appliance, appliance, machine, session_appliance

__all__ = ["appliance", "machine", "session_appliance"]


@pytest.fixture(scope="session")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build and install the collection offline, and return its folder."""
    folder = tmp_path_factory.mktemp("collections")
    source = folder / "source"
    write_collection(source)
    run: list[str | Path] = [BIN / "ansible-galaxy", "collection"]
    build = [*run, "build", "--output-path", folder, source]
    archive = folder / "busbar-pool-0.2.0.tar.gz"
    install = [*run, "install", "--offline", "--no-deps", "-p", folder, archive]
    for command in (build, install):
        subprocess.run(command, env=environment(folder), check=True, capture_output=True)
    return folder


@pytest.fixture(scope="package")
def connection(session_appliance: Appliance) -> dict[str, str]:
    """Return the options of modules that connect to the appliance as an administrator."""
    return {
        "url": session_appliance.stack.url,
        "token": json.loads(session_appliance.context.read_text())["token"],
        "ca_file": str(session_appliance.stack.appliance_data / "ca.pem"),
    }


@pytest.fixture(scope="package")
def run_module(collections: Path, connection: dict[str, str]) -> RunModule:
    return module_runner(collections, connection)
