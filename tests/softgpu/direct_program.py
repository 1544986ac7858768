"""A C program that runs on the software GPU without remoting."""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploy.supervisor import BUILD
from tests.remoting.conftest import PROGRAMS, cuda_include
from tests.remoting.node import direct_environment


def output_of(source: Path, folder: Path) -> str:
    """Compile and run a program in a folder. Return its output; fail if it fails."""
    program = folder / source.stem
    flags = ["-O1", "-Wall", "-Werror", f"-I{cuda_include()}", f"-I{PROGRAMS}"]
    libraries = [f"-L{BUILD / 'softgpu'}", "-lcuda", "-lpthread"]
    subprocess.run(["gcc", *flags, "-o", program, source, *libraries], check=True)
    done = subprocess.run(
        [program],
        env=direct_environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
