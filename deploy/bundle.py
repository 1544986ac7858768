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

from pip._vendor.packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "remoting"
BUNDLE = ROOT / "build" / "bundle"
LOCK = ROOT / "requirements-node.lock"
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


def requirements_for(python: str, lock: Path = LOCK) -> str:
    """Return the requirements of the lock file that apply to a Python version, without markers.

    pip would evaluate markers for the Python that runs it.
    """
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
    }
    kept = []
    for block in lock.read_text().replace("\\\n", " ").splitlines():
        line, *hashes = block.split("--hash=")
        if not line.strip():
            continue
        requirement = Requirement(line.strip())
        if requirement.marker is None or requirement.marker.evaluate(environment):
            kept.append(
                f"{requirement.name}{requirement.specifier} "
                + " ".join(f"--hash={h.strip()}" for h in hashes)
            )
    return "\n".join(kept) + "\n"


def fetch_wheels(python: str, target: Path) -> None:
    """Download the wheels for a Python version, unless those of this lock file are there.

    Raises CalledProcessError if pip fails.
    """
    mark, wanted = target / "fetched", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write(requirements_for(python))
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
