"""Code images through the client library. A child process loads one and prints the error code.

`python -m tests.remoting.image_calls load|run|find_big|link FILE`
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

ARCHIVE, FATBINARY = 4, 2
PTX = b".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n"


class Library:
    """libcuda of the library path with the primary context of device 0."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        assert not self.lib.cuInit(0)
        assert not self.lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        assert not self.lib.cuCtxSetCurrent(context)

    def call(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.lib, name)(*arguments))


def load(cuda: Library, image: bytes) -> tuple[int, ctypes.c_void_p]:
    module = ctypes.c_void_p()
    return cuda.call("cuModuleLoadData", ctypes.byref(module), image), module


def run(cuda: Library, image: bytes) -> int:
    """Load an image and launch its kernel `fill`."""
    code, module = load(cuda, image)
    function, p, n = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int(16)
    parameters = (ctypes.c_void_p * 2)(ctypes.addressof(p), ctypes.addressof(n))
    return (
        code
        or cuda.call("cuModuleGetFunction", ctypes.byref(function), module, b"fill")
        or cuda.call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(64))
        or cuda.call("cuLaunchKernel", function, 1, 1, 1, 16, 1, 1, 0, None, parameters, None)
        or cuda.call("cuCtxSynchronize")
    )


def find_big(cuda: Library, image: bytes) -> int:
    """Load an image and look up its variable `big`."""
    code, module = load(cuda, image)
    p, size = ctypes.c_uint64(), ctypes.c_size_t()
    return code or cuda.call(
        "cuModuleGetGlobal_v2", ctypes.byref(p), ctypes.byref(size), module, b"big"
    )


def link(cuda: Library, image: bytes) -> int:
    """Link text with an image."""
    state, out, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    kind = ARCHIVE if image.startswith(b"!<arch>") else FATBINARY
    assert not cuda.call("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
    for number, data in ((1, PTX), (kind, image)):
        code = cuda.call(
            "cuLinkAddData_v2", state, number, data, ctypes.c_size_t(len(data)), None, 0, None, None
        )
        assert not code
    return cuda.call("cuLinkComplete", state, ctypes.byref(out), ctypes.byref(size))


def main() -> None:
    cuda, image = Library(), Path(sys.argv[2]).read_bytes()
    actions = {"run": run, "find_big": find_big, "link": link}
    action = sys.argv[1]
    print(load(cuda, image)[0] if action == "load" else actions[action](cuda, image))


if __name__ == "__main__":
    main()
