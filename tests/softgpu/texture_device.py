"""Textures and surfaces of the software GPU in a child process, with arrays of NumPy."""

from __future__ import annotations

import ctypes
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.softgpu.driver import Device, run_in_child, serve

FORMATS = {"u1": 1, "u2": 2, "u4": 3, "i1": 8, "i2": 9, "i4": 10, "f2": 0x10, "f4": 0x20}
LAYERED, SURFACE, CUBE, GATHER = 1, 2, 4, 8
AS_INTEGER, NORMALIZED = 1, 2
WRAP, CLAMP, MIRROR, BORDER = range(4)
POINT, LINEAR = range(2)


@dataclass(frozen=True)
class Job:
    """A kernel `k` with the parameters (object, inputs…, output), run by one block of threads.

    The array has the shape (depth or layers, rows, columns, channels).
    """

    ptx: str
    array: np.ndarray[Any, Any]
    output: np.ndarray[Any, Any]
    inputs: tuple[np.ndarray[Any, Any], ...] = ()
    threads: int = 1
    flags: int = 0
    dimensions: int = 2
    texture: dict[str, int] | None = field(default_factory=dict)
    """None: a surface."""


class ArrayDescriptor(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in ("width", "height", "depth")] + [
        (n, ctypes.c_uint) for n in ("format", "channels", "flags")
    ]


class Place(ctypes.Structure):
    """A side of a three-dimensional copy."""

    _fields_ = [
        ("at", ctypes.c_size_t * 4),
        ("kind", ctypes.c_uint),
        ("host", ctypes.c_void_p),
        ("device", ctypes.c_uint64),
        ("array", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p),
        ("pitch", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    ]


class Copy(ctypes.Structure):
    _fields_ = [("source", Place), ("target", Place), ("extent", ctypes.c_size_t * 3)]


class Resource(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("array", ctypes.c_void_p),
        ("rest", ctypes.c_byte * 120),
        ("flags", ctypes.c_uint),
    ]


class Texture(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_int * 3),
        ("filter", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("rest", ctypes.c_uint * 21),
    ]


def copy_array(device: Device, handle: ctypes.c_void_p, a: np.ndarray[Any, Any], up: bool) -> None:
    host = Place(kind=1, host=a.ctypes.data, pitch=a[0, 0].nbytes, height=a.shape[1])
    array = Place(kind=3, array=handle)
    copy = Copy(*((host, array) if up else (array, host)))
    copy.extent[:] = [a[0, 0].nbytes, a.shape[1], a.shape[0]]
    device.call("cuMemcpy3D_v2", ctypes.byref(copy))


def make_array(device: Device, job: Job) -> ctypes.c_void_p:
    layers, rows, columns, channels = job.array.shape
    sizes = [columns, rows if job.dimensions > 1 else 0]
    sizes.append(layers if job.dimensions > 2 or job.flags & (LAYERED | CUBE) else 0)
    shape = ArrayDescriptor(*sizes, FORMATS[job.array.dtype.str[1:]], channels, job.flags)
    handle = ctypes.c_void_p()
    device.call("cuArray3DCreate_v2", ctypes.byref(handle), ctypes.byref(shape))
    copy_array(device, handle, job.array, up=True)
    return handle


def make_object(device: Device, job: Job, array: ctypes.c_void_p) -> ctypes.c_uint64:
    resource, made = Resource(kind=0, array=array), ctypes.c_uint64()
    if job.texture is None:
        device.call("cuSurfObjectCreate", ctypes.byref(made), ctypes.byref(resource))
        return made
    t = Texture(filter=job.texture.get("filter", POINT), flags=job.texture.get("flags", 0))
    t.address[:] = [job.texture.get("address", CLAMP)] * 3
    device.call(
        "cuTexObjectCreate", ctypes.byref(made), ctypes.byref(resource), ctypes.byref(t), None
    )
    return made


def upload(device: Device, a: np.ndarray[Any, Any]) -> ctypes.c_uint64:
    p = ctypes.c_uint64()
    device.call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(a.nbytes))
    device.call("cuMemcpyHtoD_v2", p, ctypes.c_void_p(a.ctypes.data), ctypes.c_size_t(a.nbytes))
    return p


def run(device: Device, job: Job) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the array and the output after the kernel."""
    array = make_array(device, job)
    values = [make_object(device, job, array), *(upload(device, a) for a in job.inputs)]
    values.append(upload(device, job.output))
    module, function = device.load(job.ptx), ctypes.c_void_p()
    device.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
    parameters = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    device.call("cuLaunchKernel", function, 1, 1, 1, job.threads, 1, 1, 0, None, parameters, None)
    device.call("cuCtxSynchronize")
    after, out = np.empty_like(job.array), np.empty_like(job.output)
    copy_array(device, array, after, up=False)
    size = ctypes.c_size_t(out.nbytes)
    device.call("cuMemcpyDtoH_v2", ctypes.c_void_p(out.ctypes.data), values[-1], size)
    return after, out


def run_jobs(jobs: list[Job], folder: Path) -> list[Any]:
    """Return the array and the output of each job, or ("error", code, log)."""
    return run_in_child([{"job": pickle.dumps(job)} for job in jobs], folder, __name__)


if __name__ == "__main__":
    serve(lambda device, job: run(device, pickle.loads(job["job"])))
