"""PyCUDA's own tests, directly on the software GPU and through remoting: `./test --long pycuda [pytest arguments]`.

PyCUDA calls the driver as CUDA 3 did and compiles with nvcc, here to PTX. Fails when a test that passes directly does not pass remoted; prints both counts
and what does not pass directly.
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
"""Tests of arrays beyond 2**32 elements skip themselves: emulated, they take hours."""

# The software GPU runs PTX, not machine code.
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


def locked() -> tuple[str, str]:
    """PyCUDA's own lines, and the others'."""
    blocks = re.findall(r"^\S.*(?:\n\s.*)*", LOCK.read_text(), re.M)
    return "\n".join(b for b in blocks if b.startswith("pycuda==")), "\n".join(
        b for b in blocks if not b.startswith("pycuda==")
    )


def lay_out_cuda() -> None:
    """A toolkit as PyCUDA looks for one, of the wheels' files."""
    toolkit = next((FOLDER / "lib").glob("python*/site-packages/nvidia/cu13"))
    (CUDA / "bin").mkdir(parents=True)
    (CUDA / "include").symlink_to(toolkit / "include")
    (CUDA / "lib64").symlink_to(toolkit / "lib")
    nvcc = CUDA / "bin" / "nvcc"
    nvcc.write_text(NVCC.format(nvcc=toolkit / "bin" / "nvcc"))
    nvcc.chmod(0o755)
    for library in (toolkit / "lib").glob("*.so.*"):  # wheels lack the name that linkers look for
        link = library.with_name(library.name.split(".so")[0] + ".so")
        if not link.exists():
            link.symlink_to(library.name)


def install() -> Path:
    """Once for each content of the lock. The folder with PyCUDA's source and tests."""
    mark = FOLDER / "installed"
    if not mark.exists() or mark.read_text() != LOCK.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER], check=True)
        own, others = FOLDER / "own.txt", FOLDER / "others.txt"
        own.write_text(locked()[0])
        others.write_text(locked()[1])
        pip("install", "-q", "--require-hashes", "-r", others)
        lay_out_cuda()
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
            own,
        )
        with tarfile.open(next((FOLDER / "source").glob("*.tar.gz"))) as archive:
            archive.extractall(FOLDER / "source", filter="data")
        configure = [
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
    """passed, failed or skipped, by test."""
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
    memory = {"BUSBAR_SOFTGPU_MEMORY_BYTES": str(GPU_MEMORY_BYTES)}
    directly = outcomes(direct_environment(folder) | memory, tests, sys.argv[1:])
    node = LocalNode(**memory)
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
        raise SystemExit("passes directly and not through remoting:\n" + "\n".join(lost))


if __name__ == "__main__":
    main()
