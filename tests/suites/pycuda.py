"""PyCUDA's tests, directly on the software GPU and through remoting.

`./test --long pycuda [pytest arguments]` prints both counts and the tests that fail directly. It
fails if a test passes directly and fails remoted. PyCUDA uses the driver API of CUDA 3 and compiles
with nvcc, here to PTX.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

from deploy.supervisor import BUILD, ROOT
from tests.remoting.node import LocalNode, direct_environment

LOCK = ROOT / "requirements-pycuda.lock"
FOLDER = ROOT / "build" / "pycuda"
CUDA = FOLDER / "cuda"
FILES = ("test_driver.py", "test_gpuarray.py", "test_cumath.py")
SUITE_SECONDS = 3600
GPU_MEMORY_BYTES = 4 << 30
"""With this size, tests of arrays above 2**32 elements are skipped; emulated, they take hours."""

# Wrapper that compiles to PTX, because the software GPU does not run machine code.
NVCC = """#!/bin/sh
for a do shift; [ "$a" = --cubin ] && {{ a=--ptx; named=1; }}; set -- "$@" "$a"; done
[ -z "${{named:-}}" ] || set -- "$@" -o kernel.cubin
exec "{nvcc}" "$@"
"""


def environment() -> dict[str, str]:
    return {
        "PATH": f"{CUDA / 'bin'}:{os.environ['PATH']}",
        "PYCUDA_CACHE_DIR": str(FOLDER / "cache"),
        "HOME": str(FOLDER),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def pip(*arguments: str | Path) -> None:
    command = [FOLDER / "bin" / "python", "-m", "pip", *arguments]
    subprocess.run(
        command,
        env=os.environ | environment() | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def split_lock() -> tuple[str, str]:
    """Return the lock's requirements of PyCUDA itself, and the other requirements."""
    blocks = re.findall(r"^\S.*(?:\n\s.*)*", LOCK.read_text(), re.M)
    return "\n".join(b for b in blocks if b.startswith("pycuda==")), "\n".join(
        b for b in blocks if not b.startswith("pycuda==")
    )


def create_toolkit_folder() -> None:
    """Create a CUDA toolkit folder with the layout that PyCUDA expects from the wheels' files."""
    toolkit = next((FOLDER / "lib").glob("python*/site-packages/nvidia/cu13"))
    (CUDA / "bin").mkdir(parents=True)
    (CUDA / "include").symlink_to(toolkit / "include")
    (CUDA / "lib64").symlink_to(toolkit / "lib")
    nvcc = CUDA / "bin" / "nvcc"
    nvcc.write_text(NVCC.format(nvcc=toolkit / "bin" / "nvcc"))
    nvcc.chmod(0o755)
    for library in (toolkit / "lib").glob("*.so.*"):  # wheels lack the unversioned name
        link = library.with_name(library.name.split(".so")[0] + ".so")
        if not link.exists():
            link.symlink_to(library.name)


def install() -> Path:
    """Install PyCUDA unless the lock is unchanged. Return the folder of its source and tests."""
    mark = FOLDER / "installed"
    if not mark.exists() or mark.read_text() != LOCK.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER], check=True)
        pycuda, others = FOLDER / "pycuda.txt", FOLDER / "others.txt"
        for path, requirements in zip((pycuda, others), split_lock(), strict=True):
            path.write_text(requirements)
        pip("install", "-q", "--require-hashes", "-r", others)
        create_toolkit_folder()
        pip(
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            "pycuda",
            "--no-build-isolation",
            "--require-hashes",
            "-d",
            FOLDER / "source",
            "-r",
            pycuda,
        )
        with tarfile.open(next((FOLDER / "source").glob("*.tar.gz"))) as archive:
            archive.extractall(FOLDER / "source", filter="data")
        configure: list[str | Path] = [
            FOLDER / "bin" / "python",
            "configure.py",
            f"--cuda-root={CUDA}",
            f"--cudadrv-lib-dir={BUILD / 'client'}",
        ]
        subprocess.run(
            configure,
            cwd=source(),
            env=os.environ | environment(),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        pip("install", "-q", "--no-deps", "--no-build-isolation", source())
        mark.write_text(LOCK.read_text())
    return source()


def source() -> Path:
    return next(p for p in (FOLDER / "source").iterdir() if p.is_dir())


def outcomes(env: dict[str, str], tests: Path, arguments: list[str]) -> dict[str, str]:
    """Run the tests. Return passed, failed or skipped by test name."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [
            FOLDER / "bin" / "python",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            FOLDER / "pytest.ini",
            f"--junitxml={report.name}",
            *(arguments or FILES),
        ]
        libraries = {"LD_LIBRARY_PATH": f"{env['LD_LIBRARY_PATH']}:{CUDA / 'lib64'}"}
        subprocess.run(
            command,
            cwd=tests,
            env=env | environment() | libraries,
            stdout=subprocess.DEVNULL,
            timeout=SUITE_SECONDS,
            check=False,
        )
        cases = ET.parse(report.name).getroot().iter("testcase")
    return {
        f"{c.get('classname')}.{c.get('name')}": "skipped"
        if c.find("skipped") is not None
        else "passed"
        if not len(c)
        else "failed"
        for c in cases
    }


def main() -> None:
    tests = install() / "test"
    (FOLDER / "cache").mkdir(exist_ok=True)
    (FOLDER / "pytest.ini").write_text("[pytest]\nmarkers = cuda\n")
    folder = Path(tempfile.mkdtemp(prefix="busbar-pycuda-"))
    memory_bytes = str(GPU_MEMORY_BYTES)
    directly = outcomes(
        direct_environment(folder) | {"BUSBAR_SOFTGPU_MEMORY_BYTES": memory_bytes},
        tests,
        sys.argv[1:],
    )
    node = LocalNode(BUSBAR_SOFTGPU_MEMORY_BYTES=memory_bytes)
    try:
        remoted = outcomes(node.remote_environment(), tests, sys.argv[1:])
    finally:
        node.stop()
        shutil.rmtree(folder)
    print(f"directly {dict(Counter(directly.values()))}, remoted {dict(Counter(remoted.values()))}")
    print(
        "\n".join(
            f"not passed directly: {name}"
            for name, outcome in sorted(directly.items())
            if outcome == "failed"
        )
    )
    lost = sorted(
        name
        for name, outcome in directly.items()
        if (outcome == "passed" and remoted.get(name) == "failed") or name not in remoted
    )
    if lost or not directly:
        raise SystemExit("Passes directly and fails remoted:\n" + "\n".join(lost))


if __name__ == "__main__":
    main()
