"""Files of an installed client, the same in each package of it.

`busbar_client` is the Python client. Its folder `private` has what only the command `busbar` uses:
the command, the packages that it imports, and the client libraries.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from deploy.groups import file_of, requirements_for

ROOT = Path(__file__).resolve().parents[1]
LOCK = file_of("client")
WHEELS = ROOT / "build" / "client-wheels"
PRIVATE = "busbar_client/private"
OLDEST_PYTHON = "3.10"
"""Its packages include those that later versions do not need."""
SOURCES = (
    "remoting/__init__.py",
    "remoting/cli/*.py",
    "remoting/softgpu/compilers/*",
    "nodes/__init__.py",
    "nodes/top_level.py",
    "nodes/version.py",
)


def python_client() -> dict[str, bytes]:
    """Return the files of the Python client, by name."""
    return {
        f"busbar_client/{path.name}": path.read_bytes()
        for path in sorted((ROOT / "busbar_client").iterdir())
        if path.suffix in (".json", ".py", ".typed")
    }


def installed_client(libraries: dict[str, bytes]) -> dict[str, bytes]:
    """Return all files of an installed client, by name. Fetches the packages that it imports."""
    private = packages() | command()
    for name, content in libraries.items():
        private[f"libraries/{name}"] = content
    files = python_client()
    files["busbar_client/command.py"] = (ROOT / "deploy" / "client_command.py").read_bytes()
    return files | {f"{PRIVATE}/{name}": private[name] for name in sorted(private)}


def command() -> dict[str, bytes]:
    """Return the sources of the command."""
    return {
        str(path.relative_to(ROOT)): path.read_bytes()
        for pattern in SOURCES
        for path in ROOT.glob(pattern)
        if path.is_file()
    }


def packages() -> dict[str, bytes]:
    """Return the files of the packages that the command imports, without compiled ones."""
    found = {}
    for wheel in fetched_wheels():
        with zipfile.ZipFile(io.BytesIO(wheel.read_bytes())) as archive:
            for name in archive.namelist():
                folder, _, file = name.partition("/")
                is_record = folder.endswith(".dist-info") and file in ("RECORD", "WHEEL")
                if not name.endswith((".so", "/")) and not is_record and ".data/" not in name:
                    found[name] = archive.read(name)
    return found


def fetched_wheels() -> list[Path]:
    """Download the wheels of the group client, unless they are there. Return their paths.

    Raises CalledProcessError if pip fails.
    """
    mark, wanted = WHEELS / "fetched", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(WHEELS, ignore_errors=True)
        WHEELS.mkdir(parents=True)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write(requirements_for(OLDEST_PYTHON, "client"))
            f.flush()
            command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
            command += ["--no-deps", "--require-hashes", "--only-binary=:all:"]
            command += ["--python-version", OLDEST_PYTHON, "--implementation", "cp"]
            for name in ("manylinux_2_28", "manylinux_2_17", "manylinux2014"):
                command += ["--platform", f"{name}_x86_64"]
            subprocess.run([*command, "-d", str(WHEELS), "-r", f.name], check=True)
        mark.write_text(wanted)
    return sorted(WHEELS.glob("*.whl"))


def is_executable(name: str) -> bool:
    return "/softgpu/compilers/" in name
