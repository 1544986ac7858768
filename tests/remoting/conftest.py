"""Fixtures: a node with a launcher, and compiled test programs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.supervisor import BUILD
from tests.remoting.node import NULL_DRIVER, LocalNode, direct_environment

if TYPE_CHECKING:
    from tests.remoting.calls.recorder import Recorder

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="package")
def node() -> Iterator[LocalNode]:
    local = LocalNode()
    yield local
    local.stop()


@pytest.fixture
def null_node() -> Iterator[LocalNode]:
    """A node of the null driver for one test, which may end its sessions and its launcher."""
    local = LocalNode(NULL_DRIVER)
    yield local
    local.stop()


@pytest.fixture(params=["remoted", "direct"])
def gpu_environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Variables for a program that reaches the GPU of the fixture `node`, or a GPU directly."""
    if request.param == "direct":
        return direct_environment(tmp_path)
    node: LocalNode = request.getfixturevalue("node")
    return node.remote_environment()


def cuda_include() -> Path:
    """Return the folder of cuda.h in NVIDIA's packages."""
    import nvidia

    return next(
        p
        for base in nvidia.__path__
        for p in Path(base).glob("*/include")
        if (p / "cuda.h").exists()
    )


def compile_program(name: str, folder: Path) -> Path:
    """Compile a program of programs/ into a folder and return its path.

    Like a user's program, it includes cuda.h and finds libcuda at run time.
    """
    target = folder / name
    flags = ["-O1", "-Wall", "-Werror", f"-I{cuda_include()}", f"-I{PROGRAMS}"]
    libraries = [f"-L{BUILD / 'client'}", "-lcuda", "-lpthread"]
    subprocess.run(["gcc", *flags, "-o", target, PROGRAMS / f"{name}.c", *libraries], check=True)
    return target


@pytest.fixture(scope="session")
def hostile_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.remoting.hostile_client import compile_client

    return compile_client(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    from tests.remoting.calls.recorder import Recorder

    return Recorder(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile a program of programs/ once and return its path."""
    folder = tmp_path_factory.mktemp("programs")
    return cache(lambda name: compile_program(name, folder))
