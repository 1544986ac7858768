"""`python -m deploy.packages client|node`: builds the packages of client or node in build/packages.

build/packages/client has, for Linux on x86-64, the wheel `busbar-client` and the wheels that it
requires, so `pip install --no-index --find-links build/packages/client busbar-client` needs no
network; a Debian package; and an archive that needs no package manager. build/packages/node has the
Debian package `busbar-node`. Only what has changed is compiled again.
"""

from __future__ import annotations

import argparse
import fcntl
import filecmp
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from deploy import client_archive, client_libraries, client_wheel, node_package
from deploy.client_contents import fetched_wheels, installed_client
from nodes.top_level import exit_status_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "build" / "packages"


def build(folder: Path, write: Callable[[Path], list[Path]]) -> list[Path]:
    """Let `write` fill a folder, unless it is up to date. Return the paths of our packages in it.

    Readers never see an incomplete folder: the new one is completed first and then renamed. A
    second build of the same folder waits for the first.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh = folder.with_name(folder.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        ours = write(fresh)
        if same_files(fresh, folder):
            shutil.rmtree(fresh)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            fresh.replace(folder)
    return [folder / path.name for path in ours]


def build_client(folder: Path, libraries: dict[str, bytes]) -> list[Path]:
    return build(folder, lambda fresh: write_client(fresh, libraries))


def build_node(folder: Path) -> list[Path]:
    return build(folder, lambda fresh: [node_package.debian_package(fresh)])


def write_client(folder: Path, libraries: dict[str, bytes]) -> list[Path]:
    """Write the packages of the client into a new folder. Return the paths of ours."""
    files = installed_client(libraries)
    ours = [
        client_wheel.build(folder, client_wheel.LINUX, files),
        client_archive.debian_package(folder, files),
        client_archive.archive(folder, files),
    ]
    for wheel in fetched_wheels():
        if wheel.name.endswith("-none-any.whl"):
            shutil.copy2(wheel, folder)
    return ours


def same_files(one: Path, other: Path) -> bool:
    names = sorted(path.name for path in one.iterdir())
    return (
        other.is_dir()
        and sorted(path.name for path in other.iterdir()) == names
        and not any(filecmp.cmpfiles(one, other, names, shallow=False)[1:])
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.packages",
        description="Build packages for machines without a checkout.",
    )
    parser.add_argument("package", choices=["client", "node"], help="what to build")
    parser.add_argument(
        "folder", nargs="?", type=Path, help="where (default: build/packages/PACKAGE)"
    )
    options = parser.parse_args()
    folder = (options.folder or PACKAGES / options.package).absolute()
    if options.package == "client":
        built = build_client(folder, client_libraries.build())
    else:
        node_package.build_bundle()
        built = build_node(folder)
    print(*built, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(exit_status_of("packages", main, subprocess.CalledProcessError))
