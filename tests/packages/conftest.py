"""Fixtures: the packages of the client, and an installation of its wheel without a network.

Packages with the libraries of the checkout suffice for what does not depend on glibc. The others
take minutes to compile: ./test --long complete.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy import client_libraries
from deploy.packages import PACKAGES, build_client
from tests.system.conftest import pool, session_pool

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
