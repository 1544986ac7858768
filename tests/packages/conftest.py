"""Fixtures: the packages of the client, and an installation of its wheel without a network.

Packages with the libraries of the checkout suffice for what does not depend on glibc. The others
take minutes to compile: ./test --long client.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy import client_libraries
from deploy.packages import PACKAGES, build_client
from remoting.cli.api import Context
from tests.appliance.appliance_process import ApplianceProcess, started
from tests.packages.accounts import Account, account, sign_in
from tests.packages.installing import CURL, Bare, bare
from tests.packages.machines import Machine
from tests.packages.remote import Remote, remote_client
from tests.packages.systemd_machines import systemd_machine
from tests.ports import port
from tests.system.conftest import DEMO, Pool, pool, session_pool
from tests.system.conftest import started as started_pool

__all__ = ["pool", "session_pool"]


@dataclass(frozen=True)
class Installed:
    """A virtual environment with nothing but the wheel and what it requires."""

    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / "bin" / name)


def wheel_in(folder: Path) -> Path:
    (found,) = folder.glob("busbar_client-*-manylinux*.whl")
    return found


@pytest.fixture(scope="session")
def packages() -> Path:
    """Packages with the libraries of the checkout."""
    folder = PACKAGES / "client-for-tests"
    build_client(folder, client_libraries.of_checkout())
    return folder


@pytest.fixture(scope="session")
def portable_packages() -> Path:
    """Packages for all machines, compiled if the sources have changed."""
    build_client(PACKAGES / "client", client_libraries.build())
    return PACKAGES / "client"


@pytest.fixture(scope="session")
def portable_wheel(portable_packages: Path) -> Path:
    return wheel_in(portable_packages)


@pytest.fixture(scope="package")
def remote(portable_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """A client at the end of a network. Its appliance is the one of a pool of its own."""
    with remote_client(portable_packages, tmp_path_factory.mktemp("remote")) as found:
        yield found
        found.pool.settle()


@pytest.fixture(scope="package")
def server(
    packages: Path, session_pool: Pool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """A machine with systemd, the client, a program and credentials of root."""
    with systemd_machine(tmp_path_factory.mktemp("server") / "machine") as found:
        (package,) = packages.glob("*.deb")
        found.install(package, "/root/client.deb")
        found.run_well("dpkg", "-i", "client.deb")
        found.install(Path(DEMO), "/root/program")
        found.path("/root/.config/busbar").mkdir(parents=True)
        found.install(session_pool.context, "/root/.config/busbar/context.json")
        found.run_well("apt-get", "update", "-q")
        yield found


@pytest.fixture(scope="package")
def ada(server: Machine, session_pool: Pool) -> Account:
    """A user of the server and of the appliance who has signed in."""
    found = account(server, "ada")
    sign_in(found, session_pool, session_pool.token(found.name, "user"))
    return found


@pytest.fixture(scope="session")
def wheel(packages: Path) -> Path:
    return wheel_in(packages)


@pytest.fixture(scope="session")
def installed(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("machine") / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
    command += ["--no-index", "--find-links", str(packages), "busbar-client"]
    subprocess.run(["unshare", "--map-root-user", "-n", *command], check=True)
    return Installed(folder)


@pytest.fixture(scope="module")
def served(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of the packages, which a test may replace."""
    folder = tmp_path_factory.mktemp("served") / "client"
    folder.mkdir()
    for pattern in ("*.deb", "*.tar.gz"):
        (found,) = packages.glob(pattern)
        shutil.copy(found, folder)
    return folder


@pytest.fixture(scope="module")
def appliance(served: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    folder = tmp_path_factory.mktemp("appliance")
    with started(folder, BUSBAR_CLIENT_PACKAGES=str(served)) as found:
        yield found


@pytest.fixture(scope="module")
def stack(served: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A stack whose appliance serves the client."""
    folder = tmp_path_factory.mktemp("stack")
    with started_pool(folder, port(350), BUSBAR_CLIENT_PACKAGES=str(served)) as found:
        yield found


@pytest.fixture(scope="module")
def user(appliance: ApplianceProcess) -> Context:
    token = appliance.manage("create_token", "--role", "user", "--hours", "1")
    return Context(appliance.url, token, (appliance.data / "ca.pem").read_text())


@pytest.fixture
def new_machine() -> Iterator[Callable[..., Bare]]:
    """Make a machine outside of the folders of pytest, which serve their own user only."""
    with tempfile.TemporaryDirectory(prefix="busbar-machine-") as folder:
        Path(folder).chmod(0o755)
        yield lambda *programs: bare(Path(folder) / "machine", *programs)


@pytest.fixture
def machine(new_machine: Callable[..., Bare]) -> Bare:
    return new_machine(*CURL)
