"""Pytest plugin for cuda-python's tests: modules and names of the checkout that the wheels lack.

Its examples are named by their files; their paths, and the numbers that pytest gives to long ones,
differ from checkout to checkout.
"""

from __future__ import annotations

from pathlib import Path

import cuda.bindings
import cuda.core._memory
from cuda.core._memory import _ipc

cuda.bindings.__path__.append(str(Path("cuda_bindings/cuda/bindings").resolve()))
cuda.core._memory.IPCBufferDescriptor = _ipc.IPCBufferDescriptor


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    return Path(str(val)).name if argname == "example" else None
