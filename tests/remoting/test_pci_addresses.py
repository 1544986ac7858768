"""The forms of a PCI address that cuda.h and nvml.h document name the GPU, remoted and directly."""

from __future__ import annotations

import json
import subprocess
import sys

FIND = """
import ctypes, json, sys
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
assert cuda.cuInit(0) == 0 and nvml.nvmlInit_v2() == 0
bus, first = ctypes.create_string_buffer(32), ctypes.c_void_p()
assert cuda.cuDeviceGetPCIBusId(bus, 32, 0) == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(first)) == 0
domain, rest = bus.value.decode().split(":", 1)
found = {}
for form in json.loads(sys.argv[1]):
    text = form.format(domain=domain, rest=rest, device=rest.split(".")[0]).encode()
    device, handle = ctypes.c_int(-1), ctypes.c_void_p()
    by_cuda = cuda.cuDeviceGetByPCIBusId(ctypes.byref(device), text)
    by_nvml = nvml.nvmlDeviceGetHandleByPciBusId_v2(text, ctypes.byref(handle))
    found[form] = [by_cuda or device.value == 0, by_nvml or handle.value == first.value]
print(json.dumps(found))
"""
INVALID_VALUE, INVALID_ARGUMENT, NOT_FOUND = 1, 2, 6
EXPECTED: dict[str, list[object]] = {
    "{domain}:{rest}": [True, True],
    "{domain}:{device}": [True, True],
    "{rest}": [True, True],
    "0000{domain}:{rest}": [True, True],
    "{domain}:{device}.1": [INVALID_VALUE, NOT_FOUND],
    "7fff:{rest}": [INVALID_VALUE, NOT_FOUND],
    "{device}": [INVALID_VALUE, INVALID_ARGUMENT],
    "": [INVALID_VALUE, INVALID_ARGUMENT],
}


def test_each_documented_form_names_the_gpu(gpu_environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIND, json.dumps(list(EXPECTED))],
        env=gpu_environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == EXPECTED
