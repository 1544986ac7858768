"""A program that shows what it knows about its partition, on command.

It reads lines: `sizes` answers the totals of cuMemGetInfo, cuDeviceTotalMem and NVML; `free`
answers what cuMemGetInfo calls free and NVML calls used; `allocate BYTES` and `release ID` as
`allocating_program` does; `capture` begins to capture the fill of an allocation, and `launch` ends
it, launches the graph and answers the sum of the bytes; `spin` starts a kernel that runs until
`stop`; `stop_while_freeing` frees other memory again and again until it has ended; `work COUNT
ROUNDS` marks the allocations and launches kernels, each of which begins with the number that the
last one left; `is_working` answers whether they are unfinished; `result` waits for them and answers
the number and how many marks are wrong.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

from tests.remoting.allocating_program import CudaError, Memory, call, cuda, plain, read_linear

FILLED_BYTES = 1 << 16
RELAXED = 2
NON_BLOCKING = 1
NOT_READY = 600
FREES, FREED_BYTES = 50, 4096
SPIN = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 p) {
  .reg .u64 %a; .reg .u32 %v; .reg .pred %q;
  ld.param.u64 %a, [p];
L: ld.volatile.global.u32 %v, [%a]; setp.eq.u32 %q, %v, 0; @%q bra L; ret; }
"""
MARKED_BYTES = 1 << 16
CHAINED = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry chained(.param .u64 p, .param .u32 rounds) {
  .reg .u64 %a; .reg .u32 %v; .reg .u32 %n; .reg .pred %q;
  ld.param.u64 %a, [p]; ld.param.u32 %n, [rounds]; ld.global.u32 %v, [%a];
L: mad.lo.u32 %v, %v, 1664525, 1013904223; sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0; @%q bra L;
  st.global.u32 [%a], %v; ret; }
"""

nvml = ctypes.CDLL("libnvidia-ml.so.1")


class NvmlMemory(ctypes.Structure):
    _fields_ = (("total", c_uint64), ("free", c_uint64), ("used", c_uint64))


def nvml_memory() -> NvmlMemory:
    device, memory = c_void_p(), NvmlMemory()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(device)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(device, byref(memory)) == 0
    return memory


def loaded(image: bytes, name: bytes) -> c_void_p:
    module, function = c_void_p(), c_void_p()
    call("cuModuleLoadData", byref(module), image)
    call("cuModuleGetFunction", byref(function), module, name)
    return function


class Chain:
    """Kernels of which each begins with the number that the last one left, and marked memory."""

    def __init__(self) -> None:
        self.function = loaded(CHAINED, b"chained")
        self.stream, self.number = c_void_p(), c_uint64()
        self.marked: dict[int, Memory] = {}
        call("cuStreamCreate", byref(self.stream), NON_BLOCKING)
        call("cuMemAlloc_v2", byref(self.number), c_size_t(4))
        call("cuMemsetD32Async", self.number, c_uint(0), c_size_t(1), self.stream)

    def mark(self, number: int, memory: Memory) -> None:
        self.marked[number] = memory
        words = c_size_t(MARKED_BYTES // 4)
        call("cuMemsetD32Async", c_uint64(memory.address), c_uint(number), words, self.stream)

    def launch(self, rounds: int) -> None:
        values = self.number, c_uint(rounds)
        parameters = (c_void_p * 2)(*(ctypes.cast(byref(v), c_void_p) for v in values))
        call("cuLaunchKernel", self.function, *[1] * 6, 0, self.stream, parameters, None)

    def result(self) -> int:
        call("cuStreamSynchronize", self.stream)
        return int.from_bytes(read_linear(self.number.value, 4), "little")

    def wrong_marks(self) -> int:
        """Return how many allocations have other content than their marks."""
        expected = {n: n.to_bytes(4, "little") * (MARKED_BYTES // 4) for n in self.marked}
        contents = {n: read_linear(m.address, MARKED_BYTES) for n, m in self.marked.items()}
        return sum(contents[n] != expected[n] for n in self.marked)


class Program:
    def __init__(self) -> None:
        self.held: dict[int, Memory] = {}
        self.number = 0
        self.stream, self.spinning, self.filled = c_void_p(), c_void_p(), c_uint64()
        call("cuStreamCreate", byref(self.stream), 0)
        call("cuMemAlloc_v2", byref(self.filled), c_size_t(FILLED_BYTES))
        self.word = c_uint64()
        call("cuMemAlloc_v2", byref(self.word), c_size_t(4))
        self.chain: Chain | None = None

    def sizes(self) -> str:
        free, total, of_device = c_size_t(), c_size_t(), c_size_t()
        call("cuMemGetInfo_v2", byref(free), byref(total))
        call("cuDeviceTotalMem_v2", byref(of_device), c_int(0))
        return f"{total.value} {of_device.value} {nvml_memory().total}"

    def free(self) -> str:
        free, total = c_size_t(), c_size_t()
        call("cuMemGetInfo_v2", byref(free), byref(total))
        return f"{free.value} {nvml_memory().used}"

    def allocate(self, count: str) -> str:
        self.number += 1
        self.held[self.number] = plain(int(count))
        return f"ok {self.number}"

    def work(self, count: str, rounds: str) -> str:
        self.chain = self.chain or Chain()
        for number, memory in self.held.items():
            if number not in self.chain.marked:
                self.chain.mark(number, memory)
        for _ in range(int(count)):
            self.chain.launch(int(rounds))
        return "ok"

    def is_working(self) -> str:
        assert self.chain is not None
        return str(cuda.cuStreamQuery(self.chain.stream) == NOT_READY)

    def result(self) -> str:
        assert self.chain is not None
        return f"{self.chain.result()} {self.chain.wrong_marks()}"

    def release(self, number: str) -> str:
        if self.chain is not None:
            self.chain.marked.pop(int(number), None)
        self.held.pop(int(number)).release()
        return "ok"

    def capture(self) -> str:
        call("cuStreamBeginCapture_v2", self.stream, RELAXED)
        count = c_size_t(FILLED_BYTES)
        call("cuMemsetD8Async", self.filled, ctypes.c_ubyte(3), count, self.stream)
        return "ok"

    def launch(self) -> str:
        graph, executable = c_void_p(), c_void_p()
        call("cuStreamEndCapture", self.stream, byref(graph))
        call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
        call("cuGraphLaunch", executable, self.stream)
        call("cuStreamSynchronize", self.stream)
        return str(sum(read_linear(self.filled.value, FILLED_BYTES)))

    def spin(self) -> str:
        function = loaded(SPIN, b"spin")
        call("cuStreamCreate", byref(self.spinning), NON_BLOCKING)
        call("cuMemsetD32_v2", self.word, c_uint(0), c_size_t(1))
        call("cuCtxSynchronize")
        parameters = (c_void_p * 1)(ctypes.cast(byref(self.word), c_void_p))
        call("cuLaunchKernel", function, *[1] * 6, 0, self.spinning, parameters, None)
        return "ok"

    def stop(self) -> str:
        call("cuMemsetD32_v2", self.word, c_uint(1), c_size_t(1))
        call("cuCtxSynchronize")
        return "ok"

    def stop_while_freeing(self) -> str:
        call("cuMemsetD32_v2", self.word, c_uint(1), c_size_t(1))
        while cuda.cuStreamQuery(self.spinning) == NOT_READY:
            for _ in range(FREES):
                plain(FREED_BYTES).release()
        return self.stop()


def main() -> None:
    context = c_void_p()
    call("cuInit", c_uint(0))
    call("cuDevicePrimaryCtxRetain", byref(context), 0)
    call("cuCtxSetCurrent", context)
    assert nvml.nvmlInit_v2() == 0
    program = Program()
    print("ready", flush=True)
    for line in sys.stdin:
        action, *arguments = line.split()
        run: Callable[..., str] = getattr(program, action)
        try:
            print(run(*arguments), flush=True)
        except CudaError as error:
            print(f"error {error}", flush=True)


if __name__ == "__main__":
    main()
