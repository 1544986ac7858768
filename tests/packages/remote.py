"""A client at the end of a network, with a root of its own, and the programs of `./run --check`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.client_archive import ARCHIVE_NAME, DEBIAN_NAME
from deploy.groups import requirements_for
from deploy.supervisor import BUILD, ROOT
from tests.packages.accounts import Account, account, line_of, sign_in
from tests.packages.machines import Machine, Release, machine, release_named
from tests.packages.network import network_to
from tests.ports import port
from tests.system.conftest import Pool, started

RELEASE: Release = release_named("noble")
"""Another system than those of most checkouts, whose Python runs Numba's newest release."""
PROGRAMS = "/opt/programs"
DEMOS = {
    str(ROOT / "deploy" / "demo" / "numba_demo.py"): f"{PROGRAMS}/numba_demo.py",
    str(BUILD / "demo" / "gpu_demo"): f"{PROGRAMS}/gpu_demo",
}
"""Programs of this machine by their paths on the other one."""
USER = "ada"


@dataclass(frozen=True)
class Remote:
    """A user of a machine, who has installed the client and signed in at a pool."""

    machine: Machine
    user: Account
    pool: Pool
    served: Path
    """Packages that the appliance serves. A test may replace them."""


def install_programs(target: Machine) -> None:
    """Install the demo programs and Numba with what it imports, as their user would."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(requirements_for(RELEASE.python, "demo"))
        file.flush()
        command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        command += ["--require-hashes", "--only-binary=:all:", "--no-compile", "--no-deps"]
        command += ["--python-version", RELEASE.python, "--root-user-action=ignore"]
        folder = target.path(f"/usr/local/lib/python{RELEASE.python}/dist-packages")
        subprocess.run([*command, "--target", str(folder), "-r", file.name], check=True)
    target.path(PROGRAMS).mkdir()
    for here, there in DEMOS.items():
        target.install(Path(here), there)


@contextmanager
def remote_client(packages: Path, folder: Path) -> Iterator[Remote]:
    """Start a machine, a network to it and a pool that is reached through it alone."""
    served = folder / "served"
    served.mkdir()
    for name in (ARCHIVE_NAME, DEBIAN_NAME):
        shutil.copy(packages / name, served)
    with (
        machine(RELEASE, folder / "machine", own_network=True) as other,
        network_to(other.pid()) as address,
        started(folder, port(400), address=address, BUSBAR_CLIENT_PACKAGES=str(served)) as pool,
    ):
        install_programs(other)
        user = account(other, USER)
        user.run_well(line_of(pool))
        sign_in(user, pool, pool.token(USER, "user"))
        yield Remote(other, user, pool, served)
