"""The Debian package of a node: the files of the bundle, and nothing of the building machine."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from appliance.fleet import bundle
from deploy import node_package
from deploy.debian import DebianPackage
from deploy.node_package import LIBRARY, debian_package
from deploy.supervisor import ROOT
from nodes.version import AGENT_VERSION

PYTHONS = ("3.10", "3.11", "3.12", "3.13")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return debian_package(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def members(package: Path) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """Files of the package and their contents by path."""
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True)
    found = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            found[member.name.removeprefix("./")] = (member, file.read() if file else b"")
    return found


def sent_over_ssh() -> dict[str, tuple[int, bytes]]:
    """Return modes and contents of what the appliance sends to machines with any Python."""
    found = {}
    for python in PYTHONS:
        with tarfile.open(fileobj=io.BytesIO(bundle.build_tar(python))) as archive:
            for member in archive:
                if file := archive.extractfile(member):
                    found[member.name] = (member.mode, file.read())
    return found


def test_package_contains_what_the_appliance_sends_over_ssh(
    members: dict[str, tuple[tarfile.TarInfo, bytes]],
) -> None:
    packaged = {
        name.removeprefix(f"{LIBRARY}/"): (member.mode, content)
        for name, (member, content) in members.items()
        if name.startswith(f"{LIBRARY}/") and member.isfile()
    }
    assert packaged == sent_over_ssh()


def test_modes_of_files_sent_over_ssh_do_not_depend_on_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, mode in {"nodes/agent.py": 0o664, "bin/x": 0o775, "softgpu/x": 0o700}.items():
        path = tmp_path / "programs" / name
        path.parent.mkdir(parents=True)
        path.touch()
        path.chmod(mode)
        path.parent.chmod(0o2775)
    (tmp_path / "programs" / "digest").touch(0o600)
    (tmp_path / "wheels" / "3.11").mkdir(parents=True)
    monkeypatch.setattr(bundle, "bundle_folder", lambda: tmp_path)
    with tarfile.open(fileobj=io.BytesIO(bundle.build_tar("3.11"))) as archive:
        modes = {member.name: member.mode for member in archive}
    assert modes == {
        **dict.fromkeys(("nodes", "bin", "bin/x", "softgpu", "softgpu/x"), 0o755),
        **dict.fromkeys(("nodes/agent.py", "digest"), 0o644),
    }


def test_build_without_dpkg_dev_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SystemExit, match="apt-get install dpkg-dev"):
        node_package.build_bundle()


def test_files_of_package_belong_to_root_and_only_programs_are_executable(
    members: dict[str, tuple[tarfile.TarInfo, bytes]],
) -> None:
    assert {(m.uid, m.gid) for m, _ in members.values()} == {(0, 0)}
    assert {m.mode for m, _ in members.values() if m.isdir()} == {0o755}
    assert {m.mode for m, _ in members.values() if m.isfile()} == {0o644, 0o755}
    executable = {Path(n).parent.name for n, (m, _) in members.items() if m.isfile() and m.mode & 1}
    assert executable == {"bin", "softgpu"}


def test_package_names_no_folder_of_the_building_machine(
    members: dict[str, tuple[tarfile.TarInfo, bytes]],
) -> None:
    assert [name for name, (_, content) in members.items() if str(ROOT).encode() in content] == []


def field(package: Path, name: str) -> str:
    command = ["dpkg-deb", "--field", str(package), name]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_control_file_has_version_and_what_the_programs_need(package: Path) -> None:
    assert field(package, "Package") == "busbar-node"
    assert field(package, "Version") == AGENT_VERSION
    assert field(package, "Architecture") == "amd64"
    needed = field(package, "Depends")
    assert needed.startswith("python3 (>= 3.10), python3 (<< 3.14), ")
    assert re.search(r"libc6 \(>= 2\.\d+\)", needed) and "libstdc++6 (" in needed
    assert "libssl3" in needed


def test_control_file_has_the_size_of_the_files(
    package: Path, members: dict[str, tuple[tarfile.TarInfo, bytes]]
) -> None:
    size = sum(len(content) for _, content in members.values())
    counted = int(field(package, "Installed-Size")) * 1024
    assert size <= counted < size + 1024 * len(members)


def test_same_files_give_the_same_package(tmp_path: Path) -> None:
    built = []
    for folder in ("first", "second"):
        package = DebianPackage("busbar", "1", "libc6", "text\n", {"postinst": "#!/bin/sh\n"})
        package.add("usr/lib/busbar/file", b"content")
        built.append(package.build(tmp_path / folder).read_bytes())
    assert built[0] == built[1]
