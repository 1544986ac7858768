"""Access of other devices to memory pools, and queries without a context, on the software GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from deploy.supervisor import ROOT
from tests.remoting.node import direct_environment

PROGRAM = """
from cuda.bindings import driver as cu
from tests.softgpu.cuda_python import create_context, error_code, ok

NONE, READ, WRITE = (cu.CUmemAccess_flags(v) for v in (0, 1, 3))

def place(device):
    where = cu.CUmemLocation()
    where.type, where.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, device
    return where

def set_access(device, flags):
    wanted = cu.CUmemAccessDesc()
    wanted.location, wanted.flags = place(device), flags
    return error_code(cu.cuMemPoolSetAccess(pool, [wanted], 1))

create_context()
pool = ok(cu.cuDeviceGetDefaultMemPool(0))
access = lambda device: int(ok(cu.cuMemPoolGetAccess(pool, place(device))))
print(access(0), access(1), error_code(cu.cuMemPoolGetAccess(pool, place(2))))
print(set_access(1, WRITE), access(1), set_access(1, NONE), access(1))
print(set_access(0, NONE), set_access(1, READ), set_access(2, WRITE), access(0), access(1))
ptx = b".version 8.0\\n.target sm_80\\n.address_size 64\\n.entry k(.param .u32 a) { ret; }\\0"
library = ok(cu.cuLibraryLoadData(ptx, [], [], 0, [], [], 0))
kernel = ok(cu.cuLibraryGetKernel(library, b"k"))
with_context = error_code(cu.cuKernelGetParamInfo(kernel, 0))
ok(cu.cuCtxPopCurrent())
print(with_context, error_code(cu.cuKernelGetParamInfo(kernel, 0)))
"""


def test_pool_access_and_parameter_queries_follow_the_documented_rules(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=direct_environment(tmp_path) | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # 1: invalid value, 101: invalid device, 201: invalid context; access 0: none, 3: both
    expected = ["3 0 101", "0 3 0 0", "1 1 101 3 0", "0 201"]
    assert done.stdout.splitlines() == expected, done.stderr[-2000:]
