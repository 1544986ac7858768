"""NVML on the program's side: the partition's memory and processes, the GPU's temperature and power, monitors that users run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from deploy.supervisor import BUILD
from remoting.codegen import headers
from tests.remoting.conftest import cuda_include
from tests.remoting.node import LocalNode

LOOK = """
import ctypes, json, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(300 << 20))
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
m = n.nvmlDeviceGetMemoryInfo(h)
number = lambda handle: ctypes.cast(handle, ctypes.c_void_p).value
same = number(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h))) == number(n.nvmlDeviceGetHandleByPciBusId(n.nvmlDeviceGetPciInfo(h).busId)) == number(h)
try:
    n.nvmlDeviceGetNvLinkState(h, 0)
    refused = 0
except n.NVMLError as e:
    refused = e.value
print(json.dumps({
    "count": n.nvmlDeviceGetCount(), "name": n.nvmlDeviceGetName(h), "total": m.total, "used": m.used, "free": m.free, "same": same, "refused": refused,
    "temperature": n.nvmlDeviceGetTemperature(h, 0), "power": n.nvmlDeviceGetPowerUsage(h), "pid": os.getpid(),
    "processes": [(p.pid, p.usedGpuMemory) for p in n.nvmlDeviceGetComputeRunningProcesses(h)],
}))
"""


def run(node: LocalNode, *command: str) -> str:
    done = subprocess.run(
        command,
        env=node.remote_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_shows_the_partition_and_its_processes(node: LocalNode) -> None:
    seen = json.loads(run(node, sys.executable, "-c", LOOK))
    assert (seen["count"], seen["name"], seen["total"]) == (
        1,
        "Software GPU",
        node.partitions[0].memory_bytes,
    )
    assert seen["used"] >= 300 << 20
    assert seen["used"] + seen["free"] == seen["total"]
    assert seen["same"]
    assert 0 < seen["temperature"] < 120
    assert seen["power"] > 0
    assert [seen["pid"], seen["used"]] in seen["processes"]
    assert seen["refused"] == 3


def test_monitors_that_users_run_work(node: LocalNode) -> None:
    scripts = Path(sys.executable).parent
    assert re.search(
        r"Software GPU \|.*/  1024 MB", run(node, str(scripts / "gpustat"), "--no-color")
    )
    assert "1024MiB" in run(node, str(scripts / "nvitop"), "-1", "--ascii")


def test_every_symbol_of_the_header_is_exported() -> None:
    out = subprocess.run(
        ["nm", "-D", "--defined-only", BUILD / "client" / "libnvidia-ml.so.1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.split()[-1] for line in out.splitlines()}
    assert set(headers.nvml_prototypes(cuda_include() / "nvml.h")) <= names
    assert all(n.startswith("nvml") for n in names)
