"""A client that is removed as the guide says leaves the machine as it was."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from deploy.supervisor import ROOT
from tests.file_tree import tree
from tests.packages.accounts import account, line_of, sign_in
from tests.packages.machines import machine
from tests.packages.remote import RELEASE, USER, Remote
from tests.system.conftest import DEMO

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
GUIDE = ROOT / "docs" / "guides" / "install-clients.md"
OF_APT = ("var/lib/apt/", "var/lib/dpkg/", "var/cache/", "var/log/")
"""Folders in which apt-get and dpkg record each package."""
SHARED = ("/.config", "/.local", "/.local/bin", "/.local/lib")
"""Folders of a home that other programs may use meanwhile."""


def line_to_remove(beginning: str) -> str:
    (line,) = re.findall(rf"{beginning} [^`\n]*", GUIDE.read_text())
    return str(line)


@pytest.mark.parametrize(
    ("name", "beginning"), [("root", "apt purge"), (USER, "rm -r")], ids=["package", "folder"]
)
def test_machine_is_as_before(remote: Remote, tmp_path: Path, name: str, beginning: str) -> None:
    with machine(RELEASE, tmp_path / "machine") as other:
        user = account(other, name)
        other.install(Path(DEMO), "/usr/local/bin/gpu_demo")
        before = tree(other.path("/"))
        user.run_well(line_of(remote.pool))
        sign_in(user, remote.pool, remote.pool.token(f"{name}-who-leaves", "user"))
        user.run_well("busbar run -p 25 --timeout 60s -- /usr/local/bin/gpu_demo memory")
        assert len(tree(other.path("/"))) > len(before) + 100
        user.run_well("busbar logout")
        user.run_well(line_to_remove(beginning).replace("apt purge", "apt-get purge -y"))
        after = tree(other.path("/"))
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    shared = {user.home[1:] + folder for folder in SHARED}
    assert not {path for path in changed - shared if not path.startswith(OF_APT)}
