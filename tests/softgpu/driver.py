"""The software GPU's libcuda through ctypes, run in a child process with PTX and arrays."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
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


Execute = Callable[[Device, dict[str, Any]], Any]
CHILD_SECONDS = 300
PID = os.getpid()
SERVERS: dict[str, subprocess.Popen[bytes]] = {}
"""The processes that fork the children of run_in_child(), by module."""


def server(module: str) -> subprocess.Popen[bytes]:
    """Return the process of a module that calls serve(), and start it for the first request."""
    if module not in SERVERS:
        SERVERS[module] = subprocess.Popen(
            [sys.executable, "-m", module],
            env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
    return SERVERS[module]


@atexit.register
def stop_servers() -> None:
    """End the servers and their children. run_in_child() starts new ones."""
    while SERVERS and os.getpid() == PID:  # not in a process that a test forked
        with suppress(ProcessLookupError, BrokenPipeError), SERVERS.popitem()[1] as process:
            os.killpg(process.pid, signal.SIGKILL)


def run_in_child(
    jobs: list[dict[str, Any]], folder: Path, module: str = "tests.softgpu.driver"
) -> list[Any]:
    """Run each job in one new process: Device.run, or Device.translate without a kernel.

    Another module calls serve() with a function of its own. Return the results in order; a
    CudaError is the tuple ("error", code, log).
    """
    process = server(module)
    assert process.stdin
    assert process.stdout
    try:
        pickle.dump((softgpu_environment(folder, 1), jobs), process.stdin)
        process.stdin.flush()
        code, output, errors = pickle.load(process.stdout)
    except BaseException:  # the answer of this request must not be read as that of the next one
        stop_servers()
        raise
    sys.stderr.write(errors.decode(errors="replace"))
    assert code == 0, f"exit status {code}: {errors.decode(errors='replace')[-2000:]}"
    results: list[Any] = pickle.loads(output)
    return results


def serve(execute: Execute) -> None:
    """Execute the jobs of each run_in_child() in a new process.

    The process is forked from this one, which has the modules but does not load the libcuda.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with suppress(EOFError):
        while True:
            environment, jobs = pickle.load(sys.stdin.buffer)
            with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
                if (child := os.fork()) == 0:
                    prepare_child(environment, errors.fileno())
                    pickle.dump(results_of(jobs, execute), output)
                    output.flush()
                    ctypes.CDLL(None).exit(0)  # with the exit handlers of the libcuda, not Python's
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                output.seek(0)
                errors.seek(0)
                pickle.dump((code, output.read(), errors.read()), answers)
                answers.flush()


def prepare_child(environment: dict[str, str], errors: int) -> None:
    """Set environment, standard streams and the time after which the process is killed."""
    signal.alarm(CHILD_SECONDS)
    os.environ.clear()
    os.environ.update(environment)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(errors, 1)  # output of kernels goes to stderr
    os.dup2(errors, 2)


def results_of(jobs: list[dict[str, Any]], execute: Execute) -> list[Any]:
    device = Device()
    results: list[Any] = []
    for job in jobs:
        try:
            results.append(execute(device, job))
        except CudaError as error:
            results.append(("error", error.code, error.log))
    return results


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
