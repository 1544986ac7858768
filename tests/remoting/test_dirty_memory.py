"""Fresh memory reaches a program as zeros, although the driver hands out dirty memory."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from deploy.supervisor import BUILD, ROOT
from tests.remoting.node import NULL_DRIVER, LocalNode
from tests.remoting.test_charges import ALLOCATING, MIB, program

KINDS_READ = (
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemCreate",
    "cuArrayCreate",
    "cuArray3DCreate",
    "cuMipmappedArrayCreate",
)
"""Of `allocating_program`."""
KINDS_OF_DRIVER = ("cuMemAlloc", "cuMemCreate", "cuArray3DCreate", "cuMipmappedArrayCreate")
"""Those that the null driver has; the client library makes the others from them."""
OTHER_SUITE = {"cuMemAllocManaged"}
"""A program reads managed memory through its copy on the host."""
ALLOCATED_AS_OTHERS = {"cuGraphAddMemAllocNode"}
"""The client library allocates it as it does for cuMemAlloc; the null driver has no graphs."""
CLEARED_BY_DRIVER = {
    "cuModuleLoad",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleLoadFatBinary",
    "cuLibraryLoadData",
    "cuLibraryLoadFromFile",
    "cuFuncLoad",
    "cuCtxSetLimit",
}
"""PTX defines variables without a value as zero; heap and stacks have no contents for CUDA."""
NO_DEVICE_MEMORY = {
    "cuMemAllocHost",
    "cuMemHostAlloc",
    "cuGraphMemAllocNodeGetParams",
    "cuMemGetAllocationGranularity",
    "cuMemGetAllocationPropertiesFromHandle",
    "cuMemRetainAllocationHandle",
    "cuCtxCreate",
    "cuStreamCreate",
    "cuEventCreate",
    "cuGraphCreate",
    "cuGraphConditionalHandleCreate",
    "cuLinkCreate",
    "cuTexObjectCreate",
    "cuSurfObjectCreate",
    "cuUserObjectCreate",
    "cuMemPoolCreate",
    "cuModuleGetLoadingMode",
    "cuFuncIsLoaded",
}
ALLOCATES = re.compile(r"Alloc|Create(_v\d)?$|Load|SetLimit$|^cuMemPoolImport")
SPECIFICATION = ROOT / "remoting" / "spec" / "cuda_driver.spec"


@pytest.fixture(scope="module")
def dirty_node() -> Iterator[LocalNode]:
    node = LocalNode(NULL_DRIVER)
    yield node
    node.stop()


def implemented_functions() -> set[str]:
    """Return the names of all implemented functions, without version suffix."""
    lines = (line.split() for line in SPECIFICATION.read_text().splitlines())
    return {re.sub(r"_v\d$", "", w[1]) for w in lines if len(w) > 2 and w[0] != "#"}


def test_every_function_that_allocates_is_in_a_table() -> None:
    allocating = {name for name in implemented_functions() if ALLOCATES.search(name)}
    others = (OTHER_SUITE, ALLOCATED_AS_OTHERS, CLEARED_BY_DRIVER, NO_DEVICE_MEMORY)
    known = {*KINDS_READ}.union(*others)
    assert allocating <= known, allocating - known


@pytest.mark.parametrize("count", [5000, 3 * MIB])
@pytest.mark.parametrize("kind", KINDS_READ)
@pytest.mark.parametrize("arena", [False, True])
def test_fresh_memory_is_zero(dirty_node: LocalNode, kind: str, count: int, arena: bool) -> None:
    with program(dirty_node, arena=arena) as p:
        answer = p.allocate(kind, count)
        assert answer.startswith("ok")
        assert p.tell(f"read {answer.removeprefix('ok ')}") == "ok 0"


@pytest.mark.parametrize("kind", KINDS_OF_DRIVER)
def test_driver_without_the_session_server_gives_dirty_memory(kind: str) -> None:
    """Otherwise the test above would show nothing."""
    env = os.environ | {"LD_LIBRARY_PATH": str(BUILD / "null_driver")}
    with subprocess.Popen(
        ALLOCATING, env=env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        out, _ = running.communicate(f"allocate {kind} 5000\nread 0\n")
    assert int(out.splitlines()[-1].removeprefix("ok ")) > 0, out
