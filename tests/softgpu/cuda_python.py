"""Functions on cuda-python for test programs: context, NVRTC compilation, copies and launches."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import nvidia
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc

Array = np.ndarray[Any, Any]

u64, i32 = ctypes.c_uint64, ctypes.c_int


def ok(result: tuple[Any, ...]) -> Any:
    """Return the values of a driver call's result. Raises AssertionError if it failed."""
    error, *values = result
    assert int(error) == 0, error
    return values[0] if len(values) == 1 else values


def error_code(result: tuple[Any, ...]) -> int:
    """Return the CUDA error code of a driver call's result."""
    return int(result[0])


def create_context() -> Any:
    """Make the primary context of device 0 current and return it."""
    ok(cu.cuInit(0))
    context = ok(cu.cuDevicePrimaryCtxRetain(0))
    ok(cu.cuCtxSetCurrent(context))
    return context


def compile_module(source: str, *options: str) -> Any:
    """Compile CUDA C++ to PTX and load it as a module. Raises SystemExit with the log on errors."""
    include = [
        f"-I{p}"
        for base in nvidia.__path__
        for p in (*Path(base).glob("*/include"), *Path(base).glob("*/include/cccl"))
    ]
    program = ok(nvrtc.nvrtcCreateProgram(source.encode(), b"program.cu", 0, [], []))
    arguments = [
        o.encode()
        for o in ("-arch=compute_90", "-default-device", "-std=c++17", *include, *options)
    ]
    if error_code(nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)):
        log = b" " * ok(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise SystemExit(log.decode())
    ptx = b" " * ok(nvrtc.nvrtcGetPTXSize(program))
    ok(nvrtc.nvrtcGetPTX(program, ptx))
    return ok(cu.cuModuleLoadData(ptx))


def get_function(module: Any, name: str) -> Any:
    return ok(cu.cuModuleGetFunction(module, name.encode()))


def to_device(a: Array) -> int:
    """Copy an array to new device memory and return its address."""
    p = ok(cu.cuMemAlloc(a.nbytes))
    ok(cu.cuMemcpyHtoD(p, a.ctypes.data, a.nbytes))
    return int(p)


def to_host(p: int, like: Array) -> Array:
    """Copy device memory to a new array with the shape and type of `like`."""
    out = np.empty_like(like)
    ok(cu.cuMemcpyDtoH(out.ctypes.data, p, out.nbytes))
    return out


def pack_arguments(*arguments: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return kernelParams for ctypes values, and the values, which must outlive the launch."""
    return (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments)), arguments


def launch(
    f: Any, grid: int, block: int, *arguments: Any, stream: Any = 0, shared: int = 0
) -> None:
    """Launch a one-dimensional grid."""
    pointers, kept = pack_arguments(*arguments)
    ok(
        cu.cuLaunchKernel(
            f, grid, 1, 1, block, 1, 1, shared, stream, ctypes.addressof(pointers) if kept else 0, 0
        )
    )
