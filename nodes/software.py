"""Software of a node: unpacked from a bundle, tested on the machine, replaced by a newer one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from nodes.errors import NodeError
from nodes.paths import HOME, LIBRARY, PROGRAMS

FRESH, OLD = HOME / "new", HOME / "old"
"""Folders of an upgrade."""
PROGRAM_FOLDERS = (PROGRAMS.name, "softgpu")
PARTS = (LIBRARY.name, *PROGRAM_FOLDERS)
DIGEST = "digest"
"""File that names the version of an upgrade that has ended. Ansible compares it."""
MODULES = "import grpc, cryptography.x509, pynvml, google.protobuf, nodes.agent"


def unpack(bundle: Path, folder: Path) -> None:
    """Unpack wheels for this Python, agent and programs. A wheel is a zip file of modules.

    Raises NodeError if the folder is no bundle.
    """
    if not (bundle / DIGEST).exists():
        raise NodeError(f"{bundle} is not the folder of an unpacked bundle.")
    library = folder / LIBRARY.name
    library.mkdir()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for wheel in sorted((bundle / "wheels" / version).glob("*.whl")):
        with zipfile.ZipFile(wheel) as z:
            z.extractall(library)
    shutil.copytree(bundle / "nodes", library / "nodes")
    for name in PROGRAM_FOLDERS:
        shutil.copytree(bundle / name, folder / name)
    shutil.copy(bundle / DIGEST, folder / DIGEST)
    make_readable(folder)


def make_readable(folder: Path) -> None:
    """Make all files readable for the unprivileged service, whatever their modes in the bundle."""
    for path in folder.rglob("*"):
        program = path.parent.name in PROGRAM_FOLDERS
        path.chmod(0o755 if path.is_dir() or program else 0o644)


def python_environment(folder: Path = HOME) -> dict[str, str]:
    return {"PYTHONPATH": str(folder / LIBRARY.name), "PYTHONDONTWRITEBYTECODE": "1"}


def run_programs_once(folder: Path) -> None:
    """Run each program once, to report a missing library by its name. Raises NodeError."""
    programs = folder / PROGRAMS.name
    for command in (
        [str(programs / "busbar-spawner"), "--version"],
        [str(programs / "busbar-launcher"), "--version"],
        [str(programs / "busbar-session"), "--version"],
        [sys.executable, "-c", MODULES],
    ):
        done = subprocess.run(
            command,
            env=python_environment(folder),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NodeError(
                f"{Path(command[0]).name} does not run on this machine:"
                f" {done.stderr.strip()[-300:]}"
            )


def unpack_beside(bundle: Path) -> None:
    """Unpack and test a newer version. Raises NodeError if it does not run on this machine."""
    shutil.rmtree(FRESH, ignore_errors=True)
    FRESH.mkdir()
    try:
        unpack(bundle, FRESH)
        run_programs_once(FRESH)
    except BaseException:
        shutil.rmtree(FRESH, ignore_errors=True)
        raise


def replace() -> None:
    """Put the unpacked version in the place of the installed one. Processes keep their programs.

    After an interruption, unpacking and replacing again gives the whole new version.
    """
    shutil.rmtree(OLD, ignore_errors=True)
    OLD.mkdir()
    for name in PARTS:
        if (HOME / name).exists():
            (HOME / name).rename(OLD / name)
        (FRESH / name).rename(HOME / name)


def complete() -> None:
    """End the upgrade when the service runs the new version. Until then, Ansible upgrades again."""
    (FRESH / DIGEST).rename(HOME / DIGEST)
    for folder in (FRESH, OLD):
        shutil.rmtree(folder, ignore_errors=True)
