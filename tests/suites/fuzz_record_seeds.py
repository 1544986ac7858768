"""Seeds of the fuzz target `records`: sessions, every call, and raw records."""

from __future__ import annotations

import struct

from tests.suites.fuzz_graph_seeds import event_graphs, graphs
from tests.suites.fuzz_record_steps import (
    BLOCKING,
    EVENT,
    EVERY_KIND,
    FIRST_STREAM,
    INDEPENDENT,
    LEGACY,
    NONE,
    SHARED_EVENT,
    Steps,
    opcode_rows,
    u32,
    u64,
)

CUDA_CALLS_END = 0xC0  # above every opcode of remoting/spec/cuda_driver.spec
SHARED_CHUNK = 1 << 63
NO_FAILURE, EVERY_SECOND_FAILS, ALL_FAIL = 0, 0x55555555, 0xFFFFFFFF


def copies() -> dict[str, Steps]:
    return {
        "inline copy": Steps().copy_in(BLOCKING, transfer=0, inline=64),
        "copy without its bytes": Steps().copy_in(BLOCKING, transfer=0, inline=8),
        "copy from a shared chunk": Steps().copy_in(BLOCKING, transfer=SHARED_CHUNK | 1),
        "bytes before the copy": Steps().arrive(5, 0, 64).copy_in(BLOCKING, transfer=5),
        "bytes in two parts": (
            Steps().copy_in(BLOCKING, transfer=5).fence(BLOCKING).arrive(5, 0, 32).arrive(5, 32, 32)
        ),
        "bytes out of order": Steps().copy_in(BLOCKING, transfer=5).arrive(5, 8, 32),
        "copy out in parts": Steps().row("copy_out", u64(0, 3 << 20, 9), stream=BLOCKING),
    }


def orders() -> dict[str, Steps]:
    """Return sessions with records that wait for other streams or for host functions."""
    return {
        "streams behind the legacy stream": (
            Steps()
            .copy_in(LEGACY, transfer=5)
            .fence(BLOCKING)
            .fence(INDEPENDENT)
            .fence(LEGACY)
            .arrive(5, 0, 64)
        ),
        "legacy stream behind the others": (
            Steps()
            .copy_in(BLOCKING, transfer=5)
            .copy_in(INDEPENDENT, transfer=6)
            .fence(LEGACY)
            .arrive(6, 0, 64)
            .arrive(5, 0, 64)
        ),
        "stream of another context": (
            Steps()
            .row("create_context", u64(1) + u32(2, 1, 48), context=2)
            .row("create_stream", u32(FIRST_STREAM + INDEPENDENT, 0, 0), context=2)
            .copy_in(INDEPENDENT, transfer=5)
            .fence(LEGACY)
            .row("destroy_context", context=2)
            .arrive(5, 0, 64)
        ),
        "host functions": (
            Steps()
            .host_function(BLOCKING, 3)
            .fence(BLOCKING)
            .host_function(LEGACY, 4)
            .row("destroy_event", u32(EVENT))
            .host_function_done(99)
            .host_function_done(3)
            .host_function_done(4)
            .fence(BLOCKING)
        ),
    }


def barriers() -> dict[str, Steps]:
    """Return sessions with records behind parked ones, and with barriers, which wait for these."""
    return {
        "barriers": (
            Steps()
            .row("destroy_event", u32(8))
            .copy_in(BLOCKING, transfer=5)
            .row("destroy_event", u32(EVENT))
            .row("release", u64(1))
            .row("destroy_stream", u32(FIRST_STREAM + INDEPENDENT))
            .arrive(5, 0, 64)
        ),
        "record parked behind the end of its stream": (
            Steps()
            .copy_in(INDEPENDENT, transfer=6)
            .record_event(INDEPENDENT)
            .copy_in(BLOCKING, transfer=5)
            .row("destroy_stream", u32(FIRST_STREAM + BLOCKING))
            .wait_event(BLOCKING)
            .host_function(BLOCKING, 3)
            .arrive(5, 0, 64)
            .arrive(6, 0, 64)
        ),
        "parked malformed record": (
            Steps()
            .copy_in(BLOCKING, transfer=5)
            .row("launch", u32(99, 1, 1, 1), stream=BLOCKING)
            .arrive(5, 0, 64)
            .fence(LEGACY)
        ),
    }


def events() -> dict[str, Steps]:
    use_in_graph = u64(1) + u32(EVENT)
    return {
        "event": Steps().wait_event(LEGACY).record_event(BLOCKING).wait_event(INDEPENDENT),
        "unknown event": (
            Steps()
            .record_event(BLOCKING, 99)
            .wait_event(BLOCKING, 99)
            .copy_in(BLOCKING, transfer=5)
            .wait_event(INDEPENDENT, 98)
            .record_event(BLOCKING, 99)
        ),
        "wait for a parked event": (
            Steps()
            .copy_in(BLOCKING, transfer=5)
            .wait_event(INDEPENDENT)
            .record_event(BLOCKING)
            .wait_event(INDEPENDENT)
            .record_event(BLOCKING)
            .row("elapsed_time", u64(1) + u32(EVENT, EVENT))
            .row("query_event", u64(1) + u32(EVENT))
            .arrive(5, 0, 64)
            .record_event(BLOCKING)
            .record_event(BLOCKING)
            .row("query_event", u64(1) + u32(EVENT))
        ),
        "event of a graph": (
            Steps()
            .copy_in(BLOCKING, transfer=5)
            .record_event(BLOCKING)
            .row("node_event", use_in_graph)
            .record_event(BLOCKING)
        ),
    }


def shared_events() -> dict[str, Steps]:
    """Return sessions with events that other sessions may record or wait for."""
    token = b"BUSBIPE1" + bytes(56)
    return {
        "shared event": (
            Steps()
            .share_event(SHARED_EVENT)
            .wait_event(LEGACY, SHARED_EVENT)
            .record_event(BLOCKING, SHARED_EVENT)
            .wait_event(INDEPENDENT, SHARED_EVENT)
            .row("query_event", u64(1) + u32(SHARED_EVENT))
            .row("ipc_export_event", u64(1) + u32(SHARED_EVENT))
            .row("ipc_export_event", u64(1) + u32(SHARED_EVENT))
            .row("ipc_export_event", u64(1) + u32(EVENT))
            .row("ipc_open_event", u64(1) + u32(9) + token)
            .row("destroy_event", u32(SHARED_EVENT))
        ),
        "parked record of a shared event": (
            Steps()
            .share_event(SHARED_EVENT)
            .copy_in(BLOCKING, transfer=5)
            .record_event(BLOCKING, SHARED_EVENT)
            .wait_event(INDEPENDENT, SHARED_EVENT)
            .arrive(5, 0, 64)
            .row("destroy_stream", u32(FIRST_STREAM + BLOCKING))
            .share_event(SHARED_EVENT)
        ),
        "shared event in a capture": (
            Steps()
            .share_event(SHARED_EVENT)
            .begin_capture(BLOCKING)
            .record_event(BLOCKING, SHARED_EVENT)
            .wait_event(INDEPENDENT, SHARED_EVENT)
            .end_capture(BLOCKING)
            .record_event(BLOCKING, SHARED_EVENT)
        ),
    }


def captures() -> dict[str, Steps]:
    """Return sessions that capture streams beside unfinished work."""
    full = Steps().driver(events_pending=True)
    for _ in range(8):
        full.copy_in(BLOCKING, transfer=0, inline=64)
    return {
        "capture behind unfinished work": (
            Steps()
            .append(full)
            .begin_capture(BLOCKING)
            .copy_in(BLOCKING, transfer=0, inline=64)
            .record_event(BLOCKING)
            .fence(BLOCKING)
            .wait_event(INDEPENDENT)
            .wait_event(LEGACY)
            .fence(LEGACY)
            .row("capture_info", u64(1), stream=BLOCKING)
            .row("update_capture", u64(1) + u32(0, 0), stream=BLOCKING)
            .end_capture(BLOCKING)
            .driver(events_pending=False)
            .copy_in(BLOCKING, transfer=0, inline=64)
            .fence(BLOCKING)
        ),
        "capture behind a parked record": (
            Steps()
            .copy_in(BLOCKING, transfer=5)
            .begin_capture(BLOCKING)
            .launch_graph(BLOCKING, 1)
            .end_capture(BLOCKING)
            .arrive(5, 0, 64)
        ),
        "captured copy without its bytes": (
            Steps()
            .begin_capture(BLOCKING)
            .copy_in(BLOCKING, transfer=5)
            .end_capture(BLOCKING)
            .arrive(5, 0, 64)
        ),
    }


def captures_of_objects() -> dict[str, Steps]:
    """Return sessions that capture events, graphs, and streams of a context that ends."""
    return {
        "wait for what is not captured": (
            Steps()
            .record_event(INDEPENDENT)
            .begin_capture(BLOCKING)
            .wait_event(INDEPENDENT)
            .wait_event(INDEPENDENT, 99)
            .end_capture(BLOCKING)
        ),
        "graph that is captured": (
            Steps()
            .begin_capture(BLOCKING)
            .row("instantiate", u64(1, EVERY_KIND, 0))
            .end_capture(BLOCKING)
            .row("instantiate", u64(1, EVERY_KIND, 0))
            .finish_posted()
        ),
        "capture into a graph": (
            Steps()
            .row("begin_capture", u64(1, 1) + u32(0, 0), stream=BLOCKING)
            .row("kernel_node", u64(1) + u32(2, 0) + u64(1, 0, 1))
            .row("destroy_stream", u32(FIRST_STREAM + BLOCKING))
        ),
        "captures of a context that ends": (
            Steps()
            .begin_capture(LEGACY)
            .begin_capture(INDEPENDENT)
            .begin_capture(BLOCKING)
            .begin_capture(BLOCKING)
            .row("destroy_context")
            .fence(BLOCKING)
        ),
    }


def waits() -> dict[str, Steps]:
    """Return sessions with more work behind a wait than the driver queues."""
    session = Steps().share_event(SHARED_EVENT)  # work may wait for another session
    session.driver(events_pending=True)
    for _ in range(300):
        session.fence(BLOCKING)
    return {
        "more work than the driver queues": session.driver(events_pending=False).fence(BLOCKING),
    }


def parts() -> dict[str, Steps]:
    """Return sessions with records whose payload comes in parts."""
    reply_and_graph = u64(1, 0)
    return {
        "record in parts": (
            Steps()
            .row("part", reply_and_graph)
            .row("begin_capture", u32(0, 0), stream=BLOCKING, ends_parts=True)
            .end_capture(BLOCKING)
        ),
        "name in parts": (
            Steps()
            .row("part", u64(1) + u32(1, 2))
            .row("part", u32(0, 60000) + bytes(60008))
            .row("get_function", ends_parts=True)
        ),
        "parked record in parts": (
            Steps()
            .copy_in(BLOCKING, transfer=5)
            .row("part", u64(1) + bytes(8))
            .row("launch_graph", stream=BLOCKING, ends_parts=True)
            .arrive(5, 0, 64)
        ),
        "end of no parts": Steps().row("completion_fence", stream=BLOCKING, ends_parts=True),
        "parts without an end": Steps().row("part", bytes(64)).fence(BLOCKING),
    }


def malformed() -> dict[str, Steps]:
    return {
        "unknown stream": Steps().row("destroy_stream", u32(FIRST_STREAM + 2)).fence(BLOCKING),
        "no stream": Steps().fence(NONE),
        "name": Steps().row("get_function", u64(1) + u32(1, 2, 0, 1) + b"f" + bytes(11)),
        "name longer than the record": Steps().row("get_global", u64(1) + u32(1, 64)),
        "name over the limit": Steps().row("get_global", u64(1) + u32(1, (1 << 20) + 1)),
        "more nodes than the record": Steps().row(
            "begin_capture", u64(1, 0) + u32(1000, 0), stream=BLOCKING
        ),
        "no record": Steps(),
        "payload cut short": Steps().row("create_event", bytes(2)),
        "end": Steps().row("end_session").fence(LEGACY),
    }


def raw_records() -> dict[str, bytes]:
    """Return bytes for the record reader: headers at and beyond the limits."""

    def header(size: int, opcode: int = 0x1019) -> bytes:
        return struct.pack("<IHHII", size, opcode, 0, 1, FIRST_STREAM + LEGACY)

    return {
        "whole": header(32) + bytes(16) + header(16),
        "half a header": header(32)[:8],
        "half a record": header(64) + bytes(16),
        "below a header": header(0),
        "over the limit": header(1 << 20) + bytes(16),
        "odd size": header(24) + bytes(16),
        "opcode of no row": header(16, 0x1001),
        "opcode above every row": header(16, 0xFFFF),
        "opcode of no call": header(16, 0x0FFF),
    }


def every_call() -> dict[str, Steps]:
    """Return each call with no arguments, and with few and many."""
    calls = {}
    for count in (1, 12, 64):
        ones = u64(*[1] * count)
        for name in opcode_rows():
            calls[f"row {name} {count}"] = Steps().row(name, ones, stream=LEGACY)
        for n in range(CUDA_CALLS_END):
            calls[f"call {n:02x} {count}"] = Steps().cuda_call(n, ones)
    return calls


def record_seeds() -> dict[str, bytes]:
    """Return every call with small arguments, sessions with parked records, and raw records.

    The length of a seed decides whether its session has turns (remoting/fuzz/records.cc).
    """
    calls = every_call()
    sessions = copies() | orders() | barriers() | events() | shared_events() | captures()
    sessions |= captures_of_objects() | graphs() | event_graphs() | waits() | parts() | malformed()
    seeds = {name: u32(NO_FAILURE) + steps.bytes for name, steps in calls.items()}
    for name, steps in sessions.items():
        seed = u32(NO_FAILURE) + steps.bytes
        seeds[f"{name} without turns"] = seed + bytes(-len(seed) % 4)
        seeds[f"{name} in a turn"] = seed + bytes((1 - len(seed)) % 4)
    for failures in (NO_FAILURE, EVERY_SECOND_FAILS, ALL_FAIL):
        for name, steps in sessions.items():
            seeds[f"{name} {failures:08x}"] = u32(failures) + steps.bytes
    return seeds | {f"raw {n}": u32(NO_FAILURE) + b"\xff" + r for n, r in raw_records().items()}
