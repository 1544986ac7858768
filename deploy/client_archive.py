"""Builders of the packages of the client that need no pip: `.deb` and `.tar.gz`.

Both have the files of the wheel. They start any `python3` of at least version 3.10. The same
sources give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from busbar_client import __version__
from deploy.client_contents import is_executable
from deploy.debian import EPOCH, DebianPackage

ROOT = Path(__file__).resolve().parents[1]
DEBIAN_NAME = f"busbar-client_{__version__}_amd64.deb"
ARCHIVE_NAME = "busbar-client.tar.gz"
LIBRARY = "usr/lib/busbar-client"
COMMANDS = {"busbar": "main", "busbar-smi": "smi", "busbar-python": "python"}
DESCRIPTION = """\
Client of a Busbar appliance: GPUs over the network
 The command busbar runs unmodified CUDA programs on a share of a remote GPU.
 The client libraries lie in a private folder: programs outside of busbar run
 do not see them.
"""
POSTINST = f"""\
#!/bin/sh
set -e
[ "$1" != configure ] || python3 -m compileall -q /{LIBRARY} >/dev/null 2>&1 || true
"""
PRERM = f"""\
#!/bin/sh
set -e
find /{LIBRARY} -name __pycache__ -type d -prune -exec rm -rf {{}} +
"""


def starter(python: str, library: str, function: str) -> str:
    """Return a command that starts an entry point, whatever the current folder contains.

    `library` is a shell expression for the folder of the client.
    """
    return (
        "#!/bin/sh\n"
        f'exec {python} -I -c "import sys; folder = sys.argv.pop(1);'
        " sys.path[:0] = [folder + '/busbar_client/private', folder];"
        f' from busbar_client.command import {function}; {function}()" {library} "$@"\n'
    )


def debian_package(folder: Path, files: dict[str, bytes]) -> Path:
    """Write the Debian package and return its path. Raises CalledProcessError if dpkg-deb fails."""
    package = DebianPackage(
        "busbar-client",
        __version__,
        "python3 (>= 3.10), libc6 (>= 2.28)",
        DESCRIPTION,
        {"postinst": POSTINST, "prerm": PRERM},
    )
    for name, content in files.items():
        package.add(f"{LIBRARY}/{name}", content, executable=is_executable(name))
    for name, function in COMMANDS.items():
        text = starter("/usr/bin/python3", f"/{LIBRARY}", function)
        package.add(f"usr/bin/{name}", text.encode(), executable=True)
    return package.build(folder)


def archive(folder: Path, files: dict[str, bytes]) -> Path:
    """Write the archive that the appliance's installation script unpacks, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    here = '"$(dirname "$(dirname "$(readlink -f "$0")")")/lib"'
    packed = {f"lib/{name}": content for name, content in files.items()}
    packed |= {f"bin/{name}": starter("python3", here, f).encode() for name, f in COMMANDS.items()}
    packed["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in packed.items():
            member = tarfile.TarInfo(f"busbar-client/{name}")
            is_command = name.startswith("bin/") or is_executable(name)
            member.size, member.mtime = len(content), EPOCH
            member.mode = 0o755 if is_command else 0o644
            tar.addfile(member, io.BytesIO(content))
    target = folder / ARCHIVE_NAME
    target.write_bytes(gzip.compress(out.getvalue(), mtime=0))
    return target
