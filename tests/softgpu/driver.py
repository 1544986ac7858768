"""The software GPU's libcuda through ctypes, run in a child process with PTX and arrays."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from deploy.supervisor import ROOT, SOFTGPU
from tests.remoting.node import softgpu_environment


class CudaError(Exception):
    """A driver call failed. `log` is the compiler's log, if any."""

    def __init__(self, code: int, log: str = "") -> None:
        super().__init__(f"{code} {log}")
        self.code, self.log = code, log


class Device:
    """Device 0 with its primary context, for child processes; contexts do not survive fork.

    `library` is the software GPU's, or the name of the client library.
    """

    def __init__(self, library: str = str(SOFTGPU / "libcuda.so.1")) -> None:
        self.lib = ctypes.CDLL(library)
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        if code := getattr(self.lib, name)(*arguments):
            raise CudaError(code)

    def load(self, ptx: str) -> ctypes.c_void_p:
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(2048)
        options, values = (
            (ctypes.c_int * 2)(5, 6),
            (ctypes.c_void_p * 2)(ctypes.addressof(log), 2048),
        )
        if code := self.lib.cuModuleLoadDataEx(
            ctypes.byref(module), ptx.encode(), 2, options, values
        ):
            raise CudaError(code, log.value.decode())
        self.log = log.value.decode()
        return module

    def translate(self, ptx: str) -> list[Any]:
        """Load and compile kernel `k` without running it. Raises CudaError."""
        module, function = self.load(ptx), ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        if code := self.lib.cuFuncLoad(function):
            raise CudaError(code, self.log)
        return []

    def run(
        self,
        ptx: str,
        kernel: str,
        grid: int,
        block: int,
        arrays: list[np.ndarray[Any, Any]],
        scalars: tuple[int, ...] = (),
        shared: int = 0,
    ) -> list[Any]:
        """Launch a kernel with pointers to the arrays, then the scalars. Return the arrays after.

        Raises:
            CudaError: compilation or execution failed.
        """
        module, function = self.load(ptx), ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        pointers = []
        for a in arrays:
            p = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(max(a.nbytes, 1)))
            self.call(
                "cuMemcpyHtoD_v2", p, a.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(a.nbytes)
            )
            pointers.append(p)
        values = [*pointers, *(ctypes.c_uint32(s) for s in scalars)]
        params = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, shared, None, params, None)
        self.call("cuCtxSynchronize")
        out = []
        for a, p in zip(arrays, pointers, strict=True):
            b = np.empty_like(a)
            self.call(
                "cuMemcpyDtoH_v2", b.ctypes.data_as(ctypes.c_void_p), p, ctypes.c_size_t(b.nbytes)
            )
            self.call("cuMemFree_v2", p)
            out.append(b)
        return out


def run_in_child(
    jobs: list[dict[str, Any]], folder: Path, module: str = "tests.softgpu.driver"
) -> list[Any]:
    """Run each job in one new process: Device.run, or Device.translate without a kernel.

    Another module calls serve() with a function of its own. Return the results in order; a
    CudaError is the tuple ("error", code, log).
    """
    env = softgpu_environment(folder, 1) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=pickle.dumps(jobs),
        env=env,
        capture_output=True,
        timeout=300,
        check=False,
    )
    sys.stderr.write(done.stderr.decode(errors="replace"))
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    results: list[Any] = pickle.loads(done.stdout)
    return results


def serve(execute: Callable[[Device, dict[str, Any]], Any]) -> None:
    """Execute the jobs of run_in_child()."""
    jobs = pickle.load(sys.stdin.buffer)
    stdout = os.dup(1)
    os.dup2(2, 1)  # output of kernels goes to stderr
    device = Device()
    results: list[Any] = []
    for job in jobs:
        try:
            results.append(execute(device, job))
        except CudaError as error:
            results.append(("error", error.code, error.log))
    with os.fdopen(stdout, "wb") as out:
        pickle.dump(results, out)


def status(folder: Path) -> dict[str, Any]:
    """Return the output of softgpu-status for a machine with one GPU."""
    out = subprocess.run(
        [str(SOFTGPU / "softgpu-status")],
        env=softgpu_environment(folder, 1),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    result: dict[str, Any] = json.loads(out)
    return result


if __name__ == "__main__":
    serve(lambda device, job: device.run(**job) if "kernel" in job else device.translate(**job))
