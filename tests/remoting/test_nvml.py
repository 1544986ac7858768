"""The NVML library of the client: memory and processes of the partition, GPU metrics, monitors."""

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

QUERY = """
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
by_uuid = n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h))
by_bus_id = n.nvmlDeviceGetHandleByPciBusId(n.nvmlDeviceGetPciInfo(h).busId)
same = number(by_uuid) == number(by_bus_id) == number(h)
try:
    n.nvmlDeviceGetNvLinkState(h, 0)
    refused = 0
except n.NVMLError as e:
    refused = e.value
print(json.dumps({
    "count": n.nvmlDeviceGetCount(),
    "name": n.nvmlDeviceGetName(h),
    "total": m.total,
    "used": m.used,
    "free": m.free,
    "same": same,
    "refused": refused,
    "temperature": n.nvmlDeviceGetTemperature(h, 0),
    "power": n.nvmlDeviceGetPowerUsage(h),
    "architecture": n.nvmlDeviceGetArchitecture(h),
    "driver": n.nvmlSystemGetDriverVersion(),
    "branch": n.nvmlSystemGetDriverBranch().branch,
    "pid": os.getpid(),
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


def test_nvml_reports_partition_and_its_processes(node: LocalNode) -> None:
    result = json.loads(run(node, sys.executable, "-c", QUERY))
    assert (result["count"], result["name"], result["total"]) == (
        1,
        "Software GPU",
        node.partitions[0].memory_bytes,
    )
    assert result["used"] >= 300 << 20
    assert result["used"] + result["free"] == result["total"]
    assert result["same"]
    assert 0 < result["temperature"] < 120
    assert result["power"] > 0
    assert result["architecture"] == 10  # of capability 10.0
    assert (result["driver"], result["branch"]) == ("580.00.00", "r580_00")
    assert [result["pid"], result["used"]] in result["processes"]
    assert result["refused"] == 3


def test_gpustat_and_nvitop_show_partition(node: LocalNode) -> None:
    scripts = Path(sys.executable).parent
    assert re.search(
        r"Software GPU \|.*/  1024 MB", run(node, str(scripts / "gpustat"), "--no-color")
    )
    assert "1024MiB" in run(node, str(scripts / "nvitop"), "-1", "--ascii")


def test_every_header_symbol_is_exported() -> None:
    out = subprocess.run(
        ["nm", "-D", "--defined-only", BUILD / "client" / "libnvidia-ml.so.1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.split()[-1] for line in out.splitlines()}
    assert set(headers.nvml_prototypes(cuda_include() / "nvml.h")) <= names
    assert all(n.startswith("nvml") for n in names)
