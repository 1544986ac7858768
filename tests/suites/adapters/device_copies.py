"""Copies of the storages of PyTorch's tensors in device memory, made by the CUDA driver API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver as cuda
from torch.multiprocessing.reductions import StorageWeakRef


def ok(result: Any) -> Any:
    """Return what a call of the driver returned beside its status. Raises RuntimeError."""
    status, *values = result
    if status != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"Triton Error [CUDA]: {status.name}")
    return values[0] if values else None


@dataclass(frozen=True)
class Copy:
    """A storage's copy in device memory; `host` is the storage's address."""

    storage: StorageWeakRef
    host: int
    device: int
    size: int


COPIES: dict[int, Copy] = {}


def use_device(index: int = 0) -> None:
    """Make the primary context of a GPU current."""
    ok(cuda.cuInit(0))
    ok(cuda.cuCtxSetCurrent(ok(cuda.cuDevicePrimaryCtxRetain(ok(cuda.cuDeviceGet(index))))))


def address(storage: Any) -> int:
    """Return the address of a storage's copy; allocate it at first."""
    host, size = storage.data_ptr(), storage.nbytes()
    if not size:
        return 0
    copy = COPIES.get(host)
    if copy and (copy.storage.expired() or copy.size != size):
        free(copy)
        copy = None
    if not copy:
        copy = Copy(StorageWeakRef(storage), host, int(ok(cuda.cuMemAlloc(size))), size)
        COPIES[host] = copy
        ok(cuda.cuMemcpyHtoD(copy.device, host, size))
    return copy.device


def free(copy: Copy) -> None:
    del COPIES[copy.host]
    ok(cuda.cuMemFree(copy.device))


def live() -> list[Copy]:
    """Return the copies of storages that still exist; free the others."""
    for copy in [c for c in COPIES.values() if c.storage.expired()]:
        free(copy)
    return list(COPIES.values())


def to_device() -> None:
    for copy in live():
        ok(cuda.cuMemcpyHtoD(copy.device, copy.host, copy.size))


def to_host() -> None:
    """Wait for the device, and copy everything back."""
    ok(cuda.cuCtxSynchronize())
    for copy in live():
        ok(cuda.cuMemcpyDtoH(copy.host, copy.device, copy.size))
