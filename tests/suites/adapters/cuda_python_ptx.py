"""Pytest plugin: cuda.core and NVRTC compile to PTX where cuda-python's tests ask for machine code.

The software GPU does not run machine code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import cuda.core
from cuda.bindings import nvrtc
from cuda.bindings._v2 import nvrtc as nvrtc_2


class PtxProgram(cuda.core.Program):  # type: ignore[misc]
    """A program whose machine code is PTX."""

    def compile(self, target_type: str, *args: Any, **kwargs: Any) -> Any:
        return super().compile("ptx" if target_type == "cubin" else target_type, *args, **kwargs)


def virtual(options: Iterable[bytes]) -> list[bytes]:
    """Return options that name a virtual architecture in place of a real one."""
    return [o.replace(b"=sm_", b"=compute_") for o in options]


def compile_to_ptx(program: Any, count: int, options: Iterable[bytes]) -> Any:
    return compile_program(program, count, virtual(options))


def compile_to_ptx_2(program: Any, options: Iterable[bytes]) -> Any:
    return compile_program_2(program, virtual(options))


compile_program, compile_program_2 = nvrtc.nvrtcCompileProgram, nvrtc_2.compile_program
cuda.core.Program = PtxProgram
nvrtc.nvrtcCompileProgram, nvrtc_2.compile_program = compile_to_ptx, compile_to_ptx_2
nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN = nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX
nvrtc_2.get_cubin = nvrtc_2.get_ptx
