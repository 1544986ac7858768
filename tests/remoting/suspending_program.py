"""A program whose memory is suspended, on command.

It reads lines. `allocate KIND BYTES SEED` fills memory with bytes that follow from the seed (0:
zeros) and answers `ok ID`; `digest ID` answers the SHA-256 of it, with its address; `release ID`
answers `ok`. `capture ID OTHER` instantiates a graph that copies one to the other, and `launch`
runs it. `launches COUNT` only submits it. `begin` and `end` are the ends of another capture. `host`
puts a host function on a stream, `synchronize` lets it end and waits for it. `block ID` makes the
stream wait for a value in an allocation, and `unblock ID` writes that.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from ctypes import byref, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass

from tests.remoting.allocating_program import (
    AccessDescription,
    AllocationProperties,
    CudaError,
    Location,
    call,
    module_text,
    read_linear,
)
from tests.remoting.suspended_contents import contents, digest

RELAXED = 2
RELEASED, WAIT_EQUAL = 7, 1
HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)


@dataclass
class Memory:
    address: int
    count: int
    release: Callable[[], None]


def plain(count: int) -> Memory:
    address = c_uint64()
    call("cuMemAlloc_v2", byref(address), c_size_t(count))
    return Memory(address.value, count, lambda: call("cuMemFree_v2", address))


def asynchronous(count: int) -> Memory:
    address = c_uint64()
    call("cuMemAllocAsync", byref(address), c_size_t(count), None)
    call("cuCtxSynchronize")
    return Memory(address.value, count, lambda: call("cuMemFreeAsync", address, None))


def managed(count: int) -> Memory:
    address = c_uint64()
    call("cuMemAllocManaged", byref(address), c_size_t(count), 1)
    return Memory(address.value, count, lambda: call("cuMemFree_v2", address))


def virtual(count: int, *, keep: bool = True) -> Memory:
    """Map physical memory twice. Without `keep` the mappings alone keep it."""
    properties = AllocationProperties(type=1, location=Location(1, 0))
    handle, size, none = c_uint64(), c_size_t(count), c_uint64(0)
    call("cuMemCreate", byref(handle), size, byref(properties), none)
    access, mapped = AccessDescription(Location(1, 0), 3), []
    for _ in range(2):
        address = c_uint64()
        call("cuMemAddressReserve", byref(address), size, c_size_t(0), none, none)
        call("cuMemMap", address, size, c_size_t(0), handle, none)
        call("cuMemSetAccess", address, size, byref(access), c_size_t(1))
        mapped.append(address)
    if not keep:
        call("cuMemRelease", handle)

    def release() -> None:
        for address in mapped:
            call("cuMemUnmap", address, size)
            call("cuMemAddressFree", address, size)
        if keep:
            call("cuMemRelease", handle)

    return Memory(mapped[1].value, count, release)


def variable(count: int) -> Memory:
    """Load a module, whose variable stays on the GPU."""
    loaded, address, size = c_void_p(), c_uint64(), c_size_t()
    call("cuModuleLoadData", byref(loaded), module_text(count))
    call("cuModuleGetGlobal_v2", byref(address), byref(size), loaded, b"data")
    return Memory(address.value, count, lambda: call("cuModuleUnload", loaded))


KINDS: dict[str, Callable[[int], Memory]] = {
    "cuMemAlloc": plain,
    "cuMemAllocAsync": asynchronous,
    "cuMemAllocManaged": managed,
    "cuMemCreate": virtual,
    "cuMemCreate released": lambda count: virtual(count, keep=False),
    "cuModuleLoadData": variable,
}


class Program:
    def __init__(self) -> None:
        self.held: dict[int, Memory] = {}
        self.number = 0
        self.stream, self.executable = c_void_p(), c_void_p()
        self.callbacks: list[object] = []
        self.may_end = threading.Event()
        call("cuStreamCreate", byref(self.stream), 1)

    def allocate(self, kind: str, count: str, seed: str) -> str:
        memory = KINDS[kind.replace("_", " ")](int(count))
        call("cuMemcpyHtoD_v2", c_uint64(memory.address), contents(int(count), int(seed)),
             c_size_t(int(count)))  # fmt: skip
        self.number += 1
        self.held[self.number] = memory
        return f"ok {self.number}"

    def digest(self, number: str) -> str:
        memory = self.held[int(number)]
        return f"{digest(read_linear(memory.address, memory.count))} {memory.address}"

    def release(self, number: str) -> str:
        self.held.pop(int(number)).release()
        return "ok"

    def reach_node(self) -> str:
        """Return after the node has executed the records so far, of which some may wait."""
        any_memory = next(iter(self.held.values()))
        read_linear(any_memory.address, 4)
        return "ok"

    def begin(self) -> str:
        call("cuStreamBeginCapture_v2", self.stream, RELAXED)
        return self.reach_node()

    def end(self) -> str:
        graph = c_void_p()
        call("cuStreamEndCapture", self.stream, byref(graph))
        call("cuGraphInstantiateWithFlags", byref(self.executable), graph, c_uint64(0))
        return "ok"

    def capture(self, number: str, other: str) -> str:
        source, target = self.held[int(number)], self.held[int(other)]
        self.begin()
        call("cuMemcpyDtoDAsync_v2", c_uint64(target.address), c_uint64(source.address),
             c_size_t(source.count), self.stream)  # fmt: skip
        return self.end()

    def launch(self) -> str:
        call("cuGraphLaunch", self.executable, self.stream)
        return self.synchronize()

    def launches(self, count: str) -> str:
        for _ in range(int(count)):
            call("cuGraphLaunch", self.executable, self.stream)
        return "ok"

    def host(self) -> str:
        self.callbacks.append(HOST_FUNCTION(lambda _: self.may_end.wait()))
        call("cuLaunchHostFunc", self.stream, self.callbacks[-1], None)
        return self.reach_node()

    def block(self, number: str) -> str:
        word = c_uint64(self.held[int(number)].address)
        call("cuStreamWaitValue32_v2", self.stream, word, RELEASED, WAIT_EQUAL)
        return self.reach_node()

    def unblock(self, number: str) -> str:
        word, other = c_uint64(self.held[int(number)].address), c_void_p()
        call("cuStreamCreate", byref(other), 1)
        call("cuStreamWriteValue32_v2", other, word, RELEASED, 0)
        return self.synchronize()

    def synchronize(self) -> str:
        self.may_end.set()
        call("cuStreamSynchronize", self.stream)
        return "ok"


def main() -> None:
    context = c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", byref(context), 0)
    call("cuCtxSetCurrent", context)
    program = Program()
    print("ready", flush=True)
    for line in sys.stdin:
        action, *arguments = line.split()
        try:
            print(getattr(program, action)(*arguments), flush=True)
        except CudaError as error:
            print(f"error {error}", flush=True)


if __name__ == "__main__":
    main()
