"""Images from nvcc: fatbins with PTX and machine code; the configured compute capability."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import nvidia
import pytest

from deploy.supervisor import ROOT
from tests.remoting.node import direct_environment
from tests.softgpu.driver import Device

SOURCE = """__constant__ float k[2];
__global__ void fill(float* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = k[0] * i + k[1];
}
"""


def nvcc(folder: Path, *options: str) -> Path:
    program = next(p for base in nvidia.__path__ for p in Path(base).glob("*/bin/nvcc"))
    (folder / "fill.cu").write_text('extern "C" {\n' + SOURCE + "}\n")
    out = folder / "fill.fatbin"
    subprocess.run(
        [str(program), "-fatbin", *options, "-o", str(out), str(folder / "fill.cu")],
        check=True,
        capture_output=True,
    )
    return out


def run_image(path: str) -> None:
    """Load an image, write its constant, launch its kernel and check the result. Child process."""
    device, module, function = Device(), ctypes.c_void_p(), ctypes.c_void_p()
    device.call("cuModuleLoadData", ctypes.byref(module), Path(path).read_bytes())
    k, size, p, n = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_int(1000)
    device.call("cuModuleGetGlobal_v2", ctypes.byref(k), ctypes.byref(size), module, b"k")
    device.call(
        "cuMemcpyHtoD_v2", k, np.array([2, 3], np.float32).ctypes.data_as(ctypes.c_void_p), size
    )
    device.call("cuModuleGetFunction", ctypes.byref(function), module, b"fill")
    device.call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(4000))
    params = (ctypes.c_void_p * 2)(ctypes.addressof(p), ctypes.addressof(n))
    device.call("cuLaunchKernel", function, 4, 1, 1, 256, 1, 1, 0, None, params, None)
    out = np.empty(1000, np.float32)
    device.call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), p, ctypes.c_size_t(4000))
    np.testing.assert_array_equal(out, np.arange(1000, dtype=np.float32) * 2 + 3)


def run_child(folder: Path, program: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | direct_environment(folder) | {"PYTHONPATH": str(ROOT)} | env
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("compression", ["none", "speed", "size"])
def test_fatbin_of_nvcc_runs(compression: str, tmp_path: Path) -> None:
    image = nvcc(
        tmp_path,
        "-gencode",
        "arch=compute_75,code=compute_75",
        "-gencode",
        "arch=compute_90,code=sm_90",
        "-Xfatbin",
        f"-compress-mode={compression}",
    )
    done = run_child(
        tmp_path, f"from tests.softgpu.test_images import run_image; run_image({str(image)!r})"
    )
    assert done.returncode == 0, done.stderr


def test_image_without_ptx_is_rejected(tmp_path: Path) -> None:
    image = nvcc(tmp_path, "-gencode", "arch=compute_90,code=sm_90")
    done = run_child(
        tmp_path, f"from tests.softgpu.test_images import run_image; run_image({str(image)!r})"
    )
    assert done.returncode != 0
    assert "209" in done.stderr


@pytest.mark.parametrize("capability", ["7.5", "8.0", "9.0", "12.0"])
def test_compute_capability_is_configurable(capability: str, tmp_path: Path) -> None:
    program = """
import ctypes
from tests.softgpu.driver import Device
d, major, minor = Device(), ctypes.c_int(), ctypes.c_int()
d.call("cuDeviceGetAttribute", ctypes.byref(major), 75, 0)
d.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, 0)
name = ctypes.create_string_buffer(64); d.call("cuDeviceGetName", name, 64, 0)
print(f"{major.value}.{minor.value} {name.value.decode()}")
"""
    done = run_child(tmp_path, program, BUSBAR_SOFTGPU_COMPUTE_CAPABILITY=capability)
    assert done.stdout == f"{capability} Software GPU\n", done.stderr
