"""PyCUDA built from a copy of its source, with a toolkit folder of the layout that it expects.

PyCUDA uses the driver API of CUDA 3 and compiles with nvcc, here to PTX.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from deploy.groups import file_of, requirements
from deploy.supervisor import BUILD, ROOT

LOCK = file_of("pycuda")
SDIST = ROOT / "build" / "suites" / "pycuda-sdist"

# Wrapper that compiles to PTX, because the software GPU does not run machine code.
NVCC = """#!/bin/sh
for a do shift; [ "$a" = --cubin ] && {{ a=--ptx; named=1; }}; set -- "$@" "$a"; done
[ -z "${{named:-}}" ] || set -- "$@" -o kernel.cubin
exec "{nvcc}" "$@"
"""


@dataclass(frozen=True)
class Built:
    """The folder of the tests, and variables that they need; `libraries` are searched last."""

    tests: Path
    variables: dict[str, str] = field(default_factory=dict)
    libraries: str = ""


def download() -> Path:
    """Download the source of PyCUDA that its group names, unless it is there. Return its folder."""
    mark = SDIST / "downloaded"
    if not mark.exists() or mark.read_text() != LOCK.read_text():
        shutil.rmtree(SDIST, ignore_errors=True)
        SDIST.mkdir(parents=True)
        requirement = SDIST / "pycuda.txt"
        requirement.write_text(
            "\n".join(b for b in requirements("pycuda") if b.startswith("pycuda=="))
        )
        options = ["-q", "--no-deps", "--no-binary", "pycuda", "--no-build-isolation"]
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "download",
            *options,
            "--require-hashes",
            "-d",
            SDIST,
        ]
        subprocess.run([*pip, "-r", requirement], stdout=subprocess.DEVNULL, check=True)
        with tarfile.open(next(SDIST.glob("*.tar.gz"))) as archive:
            archive.extractall(SDIST, filter="data")
        mark.write_text(LOCK.read_text())
    return next(p for p in SDIST.iterdir() if p.is_dir())


def build(source: Path, folder: Path) -> Built:
    """Build and install PyCUDA in the environment in `folder`, unless it is installed."""
    cuda, copy = folder / "cuda", folder / "source"
    variables = {
        "PATH": f"{cuda / 'bin'}:{os.environ['PATH']}",
        "PYCUDA_CACHE_DIR": str(folder / "cache"),
        "HOME": str(folder),
    }
    (folder / "cache").mkdir(exist_ok=True)
    if not copy.exists():
        create_toolkit_folder(folder, cuda)
        shutil.copytree(source, copy)
        roots = [f"--cuda-root={cuda}", f"--cudadrv-lib-dir={BUILD / 'client'}"]
        install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "."]
        for arguments in (["configure.py", *roots], install):
            subprocess.run(
                [folder / "bin" / "python", *arguments],
                cwd=copy,
                env=os.environ | variables,
                stdout=subprocess.DEVNULL,
                check=True,
            )
    return Built(copy / "test", variables, str(cuda / "lib64"))


def create_toolkit_folder(folder: Path, cuda: Path) -> None:
    """Create a CUDA toolkit folder with the layout that PyCUDA expects from the wheels' files."""
    toolkit = next((folder / "lib").glob("python*/site-packages/nvidia/cu13"))
    (cuda / "bin").mkdir(parents=True)
    (cuda / "include").symlink_to(toolkit / "include")
    (cuda / "lib64").symlink_to(toolkit / "lib")
    nvcc = cuda / "bin" / "nvcc"
    nvcc.write_text(NVCC.format(nvcc=toolkit / "bin" / "nvcc"))
    nvcc.chmod(0o755)
    for library in (toolkit / "lib").glob("*.so.*"):  # wheels lack the unversioned name
        link = library.with_name(library.name.split(".so")[0] + ".so")
        if not link.exists():
            link.symlink_to(library.name)
