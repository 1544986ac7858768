"""Fixtures: a node with a launcher, and compiled test programs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.remoting.node import LocalNode

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def node() -> Iterator[LocalNode]:
    local = LocalNode()
    yield local
    local.stop()


def cuda_include() -> Path:
    """Return the folder of cuda.h in NVIDIA's packages."""
    import nvidia

    return next(
        p
        for base in nvidia.__path__
        for p in Path(base).glob("*/include")
        if (p / "cuda.h").exists()
    )


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile a program of programs/ once and return its path.

    Like a user's program, it includes cuda.h and finds libcuda at run time.
    """
    folder = tmp_path_factory.mktemp("programs")

    def build(name: str) -> Path:
        target = folder / name
        if not target.exists():
            from deploy.supervisor import BUILD

            source, library = PROGRAMS / f"{name}.c", BUILD / "client"
            subprocess.run(
                [
                    "gcc",
                    "-O1",
                    "-Wall",
                    "-Werror",
                    f"-I{cuda_include()}",
                    f"-I{PROGRAMS}",
                    "-o",
                    target,
                    source,
                    f"-L{library}",
                    "-lcuda",
                    "-lpthread",
                ],
                check=True,
            )
        return target

    return build
