"""Builder of the Debian package of a node, `busbar-node`.

It contains the node bundle, which the appliance also sends over SSH and which Ansible unpacks. Its
installation starts nothing: `busbar-node join` runs the installer of SSH, without the preflight,
and does not wait until the node reports.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from deploy.bundle import BUNDLE
from deploy.debian import DebianPackage
from nodes.installation import starter
from nodes.preflight import NEWEST_PYTHON, OLDEST_PYTHON
from nodes.version import AGENT_VERSION

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = "usr/lib/busbar-node"
PYTHON = "/usr/bin/python3"
DESCRIPTION = """\
Node of a Busbar appliance: shares the GPUs of this machine
 The command busbar-node join makes this machine a node. An upgrade of the
 package upgrades the node; its sessions continue.
"""
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -e /opt/busbar/journal.json ]; then busbar-node upgrade; fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ]; then busbar-node remove; fi
"""
BUILD_SCRIPT = """
set -eu
ROOT=$1
. "$ROOT/deploy/setup.sh"
lock_checkout
install_groups
build_remoting "$ROOT/build/remoting"
build_bundle
unlock_checkout
"""


def build_bundle() -> None:
    """Build the bundle, unless it is up to date.

    Raises SystemExit if the package cannot be built from it on this machine. Raises
    CalledProcessError; the message is on stderr, the log in build/log.
    """
    if shutil.which("dpkg-shlibdeps") is None:
        raise SystemExit(
            "packages: The package of a node needs dpkg-shlibdeps: apt-get install dpkg-dev"
        )
    subprocess.run(["sh", "-c", BUILD_SCRIPT, "sh", str(ROOT)], check=True)


def needed_libraries(programs: Path) -> str:
    """Return the Debian packages with the libraries of the programs, at their oldest versions."""
    found = [str(p) for folder in ("bin", "softgpu") for p in sorted((programs / folder).iterdir())]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "debian").mkdir()
        control = "Source: busbar\n\nPackage: busbar-node\nArchitecture: amd64\n"
        (Path(folder) / "debian" / "control").write_text(control)
        command = ["dpkg-shlibdeps", "-O", *found]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    (depends,) = re.findall(r"^shlibs:Depends=(.*)$", done.stdout, re.MULTILINE)
    return str(depends)


def depends(programs: Path) -> str:
    oldest = ".".join(map(str, OLDEST_PYTHON))
    following = f"{NEWEST_PYTHON[0]}.{NEWEST_PYTHON[1] + 1}"
    return f"python3 (>= {oldest}), python3 (<< {following}), {needed_libraries(programs)}"


def debian_package(folder: Path, bundle: Path = BUNDLE, version: str = AGENT_VERSION) -> Path:
    """Write the package of a bundle and return its path. Raises CalledProcessError."""
    programs = bundle / "programs"
    package = DebianPackage(
        "busbar-node",
        version,
        depends(programs),
        DESCRIPTION,
        {"postinst": POSTINST, "prerm": PRERM},
        "-Znone",  # most of it is wheels, which are compressed
    )
    for path in sorted(p for p in programs.rglob("*") if p.is_file()):
        executable = path.stat().st_mode & 0o100 != 0
        package.add(
            f"{LIBRARY}/{path.relative_to(programs)}", path.read_bytes(), executable=executable
        )
    for path in sorted(bundle.glob("wheels/*/*.whl")):
        package.add(f"{LIBRARY}/{path.relative_to(bundle)}", path.read_bytes())
    command = starter(PYTHON, Path("/") / LIBRARY)
    package.add("usr/bin/busbar-node", command.encode(), executable=True)
    return package.build(folder)
