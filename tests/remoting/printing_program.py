"""A program whose kernel prints `LINES` lines of `CHARACTERS` characters."""

from __future__ import annotations

import ctypes

from tests.softgpu.driver import Device

LINES, CHARACTERS = 500, 4000
TEXT = ",".join(["120"] * CHARACTERS) + ",10,0"
PTX = f""".version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[{CHARACTERS + 2}] = {{{TEXT}}};
.visible .entry k() {{
  .reg .b64 %f; .reg .b32 %i; .reg .pred %p;
  mov.u64 %f, text; cvta.global.u64 %f, %f; mov.u32 %i, 0;
L: {{ .param .b64 p; .param .b64 q; .param .b32 r;
  st.param.b64 [p], %f; st.param.b64 [q], 0; call.uni (r), vprintf, (p, q); }}
  add.u32 %i, %i, 1; setp.lt.u32 %p, %i, {LINES}; @%p bra L; ret; }}
"""


def main() -> None:
    device, function = Device("libcuda.so.1"), ctypes.c_void_p()
    device.call("cuModuleGetFunction", ctypes.byref(function), device.load(PTX), b"k")
    device.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    device.call("cuCtxSynchronize")


if __name__ == "__main__":
    main()
