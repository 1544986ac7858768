"""Builder of the wheels of the client, `busbar-client`.

`python -m deploy.client_wheel [FOLDER]` writes the wheel for all machines to build/client and
prints its path: the Python client only. deploy/packages.py builds the one for Linux on x86-64,
which adds the command and the client libraries. The same sources give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from busbar_client import __version__
from deploy.client_contents import is_executable, python_client

ROOT = Path(__file__).resolve().parents[1]
NAME = f"busbar_client-{__version__}"
TIMESTAMP = (2026, 1, 1, 0, 0, 0)
METADATA = f"""\
Metadata-Version: 2.3
Name: busbar-client
Version: {__version__}
Summary: Client of a Busbar appliance: GPUs over the network, and the REST API
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.10
Requires-Dist: httpx>=0.28,<1
Description-Content-Type: text/markdown

"""
ENTRY_POINTS = """\
[console_scripts]
busbar = busbar_client.command:main
busbar-smi = busbar_client.command:smi
busbar-python = busbar_client.command:python
"""


@dataclass(frozen=True)
class Platform:
    """The tag of a wheel, and the guide that a package index shows for it."""

    tag: str
    guide: str
    entry_points: str = ""


ANY = Platform("py3-none-any", "python-client.md")
LINUX = Platform("py3-none-manylinux_2_28_x86_64", "install-clients.md", ENTRY_POINTS)


def contents(platform: Platform, files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a wheel without RECORD, by name."""
    info = f"{NAME}.dist-info"
    is_pure = "true" if platform is ANY else "false"
    wheel = "Wheel-Version: 1.0\nGenerator: busbar deploy/client_wheel.py\n"
    wheel += f"Root-Is-Purelib: {is_pure}\nTag: {platform.tag}\n"
    guide = (ROOT / "docs" / "guides" / platform.guide).read_text()
    found = files | {
        f"{info}/METADATA": (METADATA + guide).encode(),
        f"{info}/WHEEL": wheel.encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    if platform.entry_points:
        found[f"{info}/entry_points.txt"] = platform.entry_points.encode()
    return found


def record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(content)}\n"


def build(folder: Path, platform: Platform, packaged: dict[str, bytes]) -> Path:
    """Write a wheel into a folder and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    files, record = contents(platform, packaged), f"{NAME}.dist-info/RECORD"
    lines = "".join(record_line(name, content) for name, content in files.items())
    files[record] = f"{lines}{record},,\n".encode()
    path = folder / f"{NAME}-{platform.tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, TIMESTAMP)
            mode = 0o755 if is_executable(name) else 0o644
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(info, content)
    return path


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "client"
    print(build(target, ANY, python_client()))
