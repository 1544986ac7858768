"""The program `hostile_client`: opens a session and then stays idle, lies or stops."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.supervisor import BUILD, ROOT
from tests.remoting.conftest import PROGRAMS, cuda_include


def compile_client(folder: Path) -> Path:
    """Compile the program into the folder and return its path."""
    target = folder / "hostile_client"
    flags = ["-std=c++20", "-O1", "-Wall", "-Werror", f"-I{ROOT / 'remoting'}"]
    libraries = [f"-L{BUILD / 'client'}", "-lcuda", "-lpthread"]
    includes = [*flags, "-isystem", str(cuda_include())]
    source = str(PROGRAMS / "hostile_client.cc")
    subprocess.run(["g++", *includes, source, "-o", str(target), *libraries], check=True)
    return target


@contextmanager
def open_session(env: dict[str, str], client: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program in a mode and yield it once it has opened its session."""
    pipe = subprocess.PIPE
    with subprocess.Popen([client, mode], env=env, stdin=pipe, stdout=pipe, text=True) as program:
        try:
            assert program.stdout is not None and program.stdout.readline() == "ready\n"
            yield program
        finally:
            program.kill()
