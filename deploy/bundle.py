"""Builder of the node bundle: wheels for each Python version, the agent and the data plane.

A machine that becomes a node gets these files from the appliance and downloads nothing.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.groups import file_of, requirements_for

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "remoting"
BUNDLE = ROOT / "build" / "bundle"
LOCK = file_of("node")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
PROGRAMS = {
    "bin": ("busbar-spawner", "busbar-launcher", "busbar-session"),
    "softgpu": (
        "softgpu/libcuda.so.1",
        "softgpu/libnvidia-ml.so.1",
        "softgpu/softgpu-compiler",
        "softgpu/softgpu-status",
    ),
}


def fetch_wheels(python: str, target: Path) -> None:
    """Download the wheels of the group node for a Python version, unless they are there.

    Raises CalledProcessError if pip fails.
    """
    mark, wanted = target / "fetched", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write(requirements_for(python, "node"))
        f.flush()
        platforms = [word for p in PLATFORMS for word in ("--platform", p)]
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        command += ["--no-deps", "--require-hashes", "--only-binary=:all:", *platforms]
        command += ["--python-version", python, "--implementation", "cp"]
        subprocess.run([*command, "-d", str(target), "-r", f.name], check=True)
    mark.write_text(wanted)


def copy_programs(target: Path) -> None:
    """Replace the agent's sources and the stripped programs, if they changed.

    Readers never see an incomplete folder: the new one is completed first and then renamed.
    """
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    for folder, names in PROGRAMS.items():
        (fresh / folder).mkdir(parents=True)
        for name in names:
            out = fresh / folder / Path(name).name
            subprocess.run(
                ["strip", "--strip-unneeded", "-o", str(out), str(BUILD / name)], check=True
            )
            out.chmod(0o755)
    shutil.copytree(
        ROOT / "nodes",
        fresh / "nodes",
        ignore=shutil.ignore_patterns("__pycache__", "*.pyi", "*.proto"),
    )
    digest = hashlib.sha256()
    for f in sorted(p for p in fresh.rglob("*") if p.is_file()):
        digest.update(str(f.relative_to(fresh)).encode() + b"\0" + f.read_bytes())
    digest.update(LOCK.read_bytes())
    mark = target / "digest"
    if mark.exists() and mark.read_text() == digest.hexdigest():
        shutil.rmtree(fresh)
        return
    (fresh / "digest").write_text(digest.hexdigest())
    old = target.with_name(target.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.replace(old)
    fresh.replace(target)
    shutil.rmtree(old, ignore_errors=True)


def main() -> None:
    for python in PYTHONS:
        fetch_wheels(python, BUNDLE / "wheels" / python)
    copy_programs(BUNDLE / "programs")


if __name__ == "__main__":
    main()
