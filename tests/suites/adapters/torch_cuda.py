"""The part of torch.cuda that Triton and its tests use, on the CUDA driver API."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import device_copies
import torch
from cuda.bindings import driver as cuda

ATTRIBUTES = {
    "multi_processor_count": "MULTIPROCESSOR_COUNT",
    "shared_memory_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "shared_memory_per_block_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "regs_per_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "warp_size": "WARP_SIZE",
    "major": "COMPUTE_CAPABILITY_MAJOR",
    "minor": "COMPUTE_CAPABILITY_MINOR",
}


def attribute(name: str) -> int:
    key = getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(device_copies.ok(cuda.cuDeviceGetAttribute(key, 0)))


def device_name(_: Any = None) -> str:
    return str(device_copies.ok(cuda.cuDeviceGetName(100, 0)).split(b"\0")[0].decode())


def properties(_: Any = None) -> SimpleNamespace:
    values = {name: attribute(key) for name, key in ATTRIBUTES.items()}
    memory = device_copies.ok(cuda.cuDeviceTotalMem(0))
    return SimpleNamespace(name=device_name(), total_memory=memory, **values)


def install() -> None:
    """Replace the functions of torch.cuda; there is one GPU and its default stream."""
    device_copies.use_device()
    stream = SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
    replaced = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda _: None,
        "synchronize": lambda _=None: device_copies.ok(cuda.cuCtxSynchronize()),
        "get_device_capability": lambda _=None: (
            attribute(ATTRIBUTES["major"]),
            attribute(ATTRIBUTES["minor"]),
        ),
        "get_device_name": device_name,
        "get_device_properties": properties,
        "current_stream": lambda _=None: stream,
        "default_stream": lambda _=None: stream,
        "stream": lambda _: nullcontext(),
        "device": lambda _: nullcontext(),
        "empty_cache": lambda: None,
    }
    for name, function in replaced.items():
        setattr(torch.cuda, name, function)
