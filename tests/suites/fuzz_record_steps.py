"""Sessions as inputs of the fuzz target `records`, in the format of remoting/fuzz/records.cc.

The index of an opcode derives from the rows of remoting/wire/opcodes.h, the opcode of a CUDA call
from remoting/spec/cuda_driver.spec.
"""

from __future__ import annotations

import re
import struct
from functools import cache

from deploy.supervisor import ROOT

OPCODES = ROOT / "remoting" / "wire" / "opcodes.h"
CUDA_CALLS = ROOT / "remoting" / "spec" / "cuda_driver.spec"
ROW, CUDA_CALL, BULK_BYTES, DRIVER = range(4)  # kinds of steps

# The streams that the target creates (remoting/fuzz/world.h), and the event.
NONE, LEGACY, BLOCKING, INDEPENDENT = range(4)
FIRST_STREAM = 16
EVENT, SHARED_EVENT = 7, 8
EVERY_KIND = 0xFF  # the graph of a capture, by its nodes (remoting/fuzz/stub_driver.h)
DISABLE_TIMING, INTERPROCESS = 2, 4  # flags of events


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


@cache
def opcode_rows() -> dict[str, int]:
    """Return the index of each row of the opcode table."""
    names = re.findall(r"^\s*OP\((\w+),\s*0x", OPCODES.read_text(), re.MULTILINE)
    return {name: index for index, name in enumerate(names)}


@cache
def call_opcodes() -> dict[str, int]:
    """Return the opcode of each CUDA call by its name."""
    calls = re.findall(r"^0x(\w+) (\w+)", CUDA_CALLS.read_text(), re.MULTILINE)
    return {name: int(opcode, 16) for opcode, name in calls}


class Steps:
    """A session as a list of steps. Each method appends one."""

    def __init__(self) -> None:
        self.bytes = b""

    def step(
        self,
        which: int,
        kind: int,
        payload: bytes,
        *,
        stream: int,
        context: int,
        ends_parts: bool = False,
    ) -> Steps:
        place = context | stream << 2 | kind << 4 | ends_parts << 6
        self.bytes += struct.pack("<BBH", which, place, len(payload)) + payload
        return self

    def row(
        self,
        name: str,
        payload: bytes = b"",
        *,
        stream: int = NONE,
        context: int = 1,
        ends_parts: bool = False,
    ) -> Steps:
        return self.step(
            opcode_rows()[name],
            ROW,
            payload,
            stream=stream,
            context=context,
            ends_parts=ends_parts,
        )

    def cuda_call(self, opcode: int, payload: bytes) -> Steps:
        return self.step(opcode, CUDA_CALL, payload, stream=LEGACY, context=1)

    def call(self, name: str, arguments: bytes) -> Steps:
        """Make a CUDA call that has a reply."""
        return self.cuda_call(call_opcodes()[name], u64(1) + arguments)

    def arrive(self, transfer: int, offset: int, size: int) -> Steps:
        payload = u64(offset) + bytes(size)
        return self.step(transfer, BULK_BYTES, payload, stream=NONE, context=0)

    def driver(self, *, events_pending: bool) -> Steps:
        """Let no event complete from now on, or all."""
        return self.step(int(events_pending), DRIVER, b"", stream=NONE, context=0)

    def append(self, other: Steps) -> Steps:
        self.bytes += other.bytes
        return self

    def copy_in(self, stream: int, *, transfer: int, size: int = 64, inline: int = 0) -> Steps:
        payload = u64(0x10000, size, transfer) + bytes(inline)
        return self.row("copy_in", payload, stream=stream)

    def fence(self, stream: int) -> Steps:
        return self.row("completion_fence", stream=stream)

    def record_event(self, stream: int, event: int = EVENT) -> Steps:
        return self.row("record_event", u32(event), stream=stream)

    def wait_event(self, stream: int, event: int = EVENT) -> Steps:
        return self.row("wait_event", u32(event), stream=stream)

    def share_event(self, event: int) -> Steps:
        """Create an event that other sessions may open."""
        self.row("ipc_create_event", u64(1) + u32(event)).finish_posted()
        return self.row("create_event", u32(event, DISABLE_TIMING | INTERPROCESS))

    def finish_posted(self) -> Steps:
        """Wait until helper threads have run what was posted."""
        return self.step(2, DRIVER, b"", stream=NONE, context=0)

    def begin_capture(self, stream: int) -> Steps:
        return self.row("begin_capture", u64(1, 0) + u32(0, 0), stream=stream)

    def end_capture(self, stream: int) -> Steps:
        return self.row("end_capture", u64(1) + u32(0, 0), stream=stream)

    def launch_graph(self, stream: int, exec_: int) -> Steps:
        return self.row("launch_graph", u64(exec_) + u32(0, 0), stream=stream)

    def change_graph(self, exec_: int, row: str = "kernel_node") -> Steps:
        """Change a node of an executable graph."""
        return self.row(row, u64(1) + u32(2, 0) + u64(1, exec_, 1))

    def host_function(self, stream: int, function: int) -> Steps:
        return self.row("host_function", u64(function), stream=stream)

    def host_function_done(self, function: int) -> Steps:
        return self.row("host_function_done", u64(function))
