"""Sizes of programs whose products and sums wrap are refused by the software GPU's driver."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.supervisor import ROOT
from tests.remoting.node import softgpu_environment
from tests.softgpu.size_attacks import ATTACKS

INVALID_VALUE, OUT_OF_MEMORY, INVALID_PTX, NOT_SUPPORTED = 1, 2, 218, 801
TERABYTES_16 = 1 << 44


def run_child(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | softgpu_environment(folder, 1) | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("attack", ATTACKS)
def test_size_that_wraps_is_refused(attack: str, tmp_path: Path) -> None:
    done = run_child(tmp_path, "-m", "tests.softgpu.size_attacks", attack)
    assert done.returncode == 0, done.stderr
    code, after = map(int, done.stdout.split())
    assert code in (INVALID_VALUE, OUT_OF_MEMORY)
    assert after == 0


FILL_WITHOUT_COLUMNS = """
import ctypes
from tests.softgpu.driver import Device
from tests.softgpu.size_attacks import Fill, allocate
device, graph, node, exec = Device(), *(ctypes.c_uint64() for _ in range(3))
context = ctypes.c_void_p()
device.call("cuCtxGetCurrent", ctypes.byref(context))
device.call("cuGraphCreate", ctypes.byref(graph), 0)
fill = Fill(allocate(device).value, 0, 1, 4, 0, 1 << 50)
device.call("cuGraphAddMemsetNode", ctypes.byref(node), graph, None, 0, ctypes.byref(fill), context)
device.call("cuGraphInstantiateWithFlags", ctypes.byref(exec), graph, ctypes.c_uint64(0))
device.call("cuGraphLaunch", exec, None)
device.call("cuCtxSynchronize")
"""


def test_fill_of_many_rows_without_columns_ends(tmp_path: Path) -> None:
    done = run_child(tmp_path, "-c", FILL_WITHOUT_COLUMNS)
    assert done.returncode == 0, done.stderr


CLUSTER_THAT_WRAPS = """
import ctypes, struct
from tests.softgpu.driver import CudaError, Device
device, function = Device(), ctypes.c_void_p()
ptx = ".version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry k() { ret; }\\n"
device.call("cuModuleGetFunction", ctypes.byref(function), device.load(ptx), b"k")
attribute = ctypes.create_string_buffer(struct.pack("<I4xIII52x", 4, 1 << 16, 1 << 16, 1), 72)
sizes = struct.pack("<7I4xQQI4x", 1, 1, 1, 1, 1, 1, 0, 0, ctypes.addressof(attribute), 1)
try:
    config = ctypes.create_string_buffer(sizes, len(sizes))
    device.call("cuLaunchKernelEx", config, function, None, None)
    print(0)
except CudaError as error:
    print(error.code)
"""


def test_cluster_whose_volume_wraps_is_refused(tmp_path: Path) -> None:
    done = run_child(tmp_path, "-c", CLUSTER_THAT_WRAPS)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == NOT_SUPPORTED


EXHAUSTING = """
import ctypes
from tests.softgpu.driver import CudaError, Device
device, p = Device(), ctypes.c_uint64()
for _ in range(40):
    for name, size in (("cuMemHostAlloc", 1 << 62), ("cuMemAddressReserve", (1 << 62) + (1 << 21))):
        arguments = [0] if name == "cuMemHostAlloc" else [0, p, ctypes.c_uint64(0)]
        try:
            device.call(name, ctypes.byref(p), ctypes.c_size_t(size), *arguments)
            print("allocated")
        except CudaError as error:
            assert error.code == 2, error
p.value = 0
device.call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(1 << 20))
print(p.value)
device.call("cuMemAddressReserve", ctypes.byref(p), ctypes.c_size_t(1 << 21), 0, ctypes.c_uint64(0),
            ctypes.c_uint64(0))
print(p.value)
"""


def test_failed_allocations_leave_addresses_for_others(tmp_path: Path) -> None:
    done = run_child(tmp_path, "-c", EXHAUSTING)
    assert done.returncode == 0, done.stderr
    window = 0x200000000000
    for address in map(int, done.stdout.split()):
        assert window <= address < window + TERABYTES_16


def test_variable_declared_twice_does_not_overwrite_others(tmp_path: Path) -> None:
    values = ",".join(["7"] * 8)
    program = f"""
from tests.softgpu.driver import CudaError, Device
ptx = '''.version 8.0
.target sm_80
.address_size 64
.global .b8 a[16777216] = {{{values}}};
.global .b8 a[1];
.visible .entry k() {{ ret; }}
'''
try:
    Device().load(ptx)
    print(0)
except CudaError as error:
    print(error.code)
"""
    done = run_child(tmp_path, "-c", program)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == INVALID_PTX


def test_layouts_are_those_of_the_header() -> None:
    from tests.softgpu import size_attacks as layouts

    assert ctypes.sizeof(layouts.Copy) == 200
    assert ctypes.sizeof(layouts.Resource) == 144
    assert ctypes.sizeof(layouts.ArrayShape) == 40
    assert ctypes.sizeof(layouts.BatchCopy) == 112
