"""Seeds of the fuzz targets `ptx`, `frames`, `ring` and `ticket`.

They take nearly every branch of the decoders, so that the coverage does not depend on how many
inputs a machine runs. tests/remoting/test_fuzz.py asserts it.
"""

from __future__ import annotations

import struct

from tests.softgpu.grammar_forms import forms
from tests.softgpu.ptx_instructions import REFUSED, SUPPORTED, kernel
from tests.softgpu.ptx_interpreter import ProgramGenerator

PTX_HEAD = ".version 9.0\n.target sm_80\n.address_size 64\n"
MALFORMED_PTX = {
    "dollar in a name": "a$b",
    "zero byte": PTX_HEAD + "\0",
    "comment at the end": "// no line break",
    "open comment": "/* a * b",
    "closed comment": "/* a * b */ .",
    "slash": "/",
    "unprintable": "\x01",
    "float of few digits": "0fXY",
    "number with a point": "1.x",
    "number with a point at the end": "1.",
    "open text": '.file 1 "a\nb',
    "two points": "..",
    "colons": ".a:b .a::1 .a::b",
    "no directive": "add;",
    "whole version": ".version 9",
    "version in parts": ".version 9 .1",
    "section without end": ".section .debug { {",
    "section without body": ".section .debug",
    "declared and defined": ".func f ; .func f { ret; } .func f ;",
    "defined twice": ".func f { ret; } .func f { ret; }",
    "alias": ".func f { ret; } .func g { ret; } .alias f, g; .alias f, h;",
    "function of other parameters": ".func f; .func f(.param .b32 a) { ret; }",
    "function and variable": ".global .b32 f; .func f { ret; }",
    "variable and function": ".func f { ret; } .global .b32 f;",
    "variable twice": ".extern .global .b32 v; .global .b32 v; .global .b32 v;",
    "large number": ".file 99999999999999999999999",
    "number without digits": "0x 0b",
    "options of a target": ".target sm_90, debug, texmode_unified .target sm_90",
    "weak definition": ".func f { ret; } .weak .func f { ret; }",
}


TOO_FEW_OPERANDS = (
    "add.u32 %r1;",
    "mov.u32 %r1;",
    "setp.eq.u32 %p1;",
    "selp.b32 %r1;",
    "cvt.rna.tf32.f32 %r1;",
    "cvt.rn.f32.f64;",
    "neg.s32 %r1;",
    "cvt.u64.u32 %rd1;",
    "ld.global.u32 %r1;",
    "st.global.u32 [%rd1];",
)


def ptx_seeds() -> dict[str, bytes]:
    samples = [kernel(s) for group in (*SUPPORTED.values(), *REFUSED.values()) for s in group]
    programs = [ProgramGenerator(s, lockstep=s % 2 == 0).program() for s in range(6)]
    seeds = {f"seed{i}": text.encode() for i, text in enumerate([*samples, *programs])}
    seeds |= {text: kernel(text).encode() for text in TOO_FEW_OPERANDS}
    lines = [form.module() for form in forms() if form.in_module or "nosuch" in form.text]
    seeds |= {f"form{i}": text.encode() for i, text in enumerate(lines)}
    return seeds | {name: text.encode("latin-1") for name, text in MALFORMED_PTX.items()}


# Kinds of frames: wire::Frame in remoting/wire/format.h.
COMPLETION, REPLY, DATA, HOST_FUNCTION, CREDIT, SESSION_ERROR, GRAPH_FUNCTION = range(1, 8)
GRAPH_OUTPUT, SHARED_DATA, KERNEL_OUTPUT, PAUSE, PARTITION_SIZE, MEMORY_WANTED = range(8, 14)
# Numbers that the target knows: remoting/fuzz/frames.cc.
STREAM, REPLY_ID, FLAT_TRANSFER, ROW_TRANSFER, STAGING, UNMAPPED_TRANSFER = 1, 1, 2, 3, 4, 5
UNKNOWN = 99


def frame(kind: int, layout: str, *values: int, data: bytes = b"") -> bytes:
    body = struct.pack("<" + layout, *values) + data
    return struct.pack("<IHH", len(body), kind, 0) + body


def valid_frames() -> dict[str, bytes]:
    return {
        "completion": frame(COMPLETION, "IIQQ", STREAM, 0, 64, 0) * 2,
        "completion with an error": frame(COMPLETION, "IIQQ", STREAM, 2, 64, 0),
        "completion of an unknown stream": frame(COMPLETION, "IIQQ", UNKNOWN, 0, 64, 0),
        "reply": frame(REPLY, "QI", REPLY_ID, 0, data=b"body"),
        "unknown reply": frame(REPLY, "QI", UNKNOWN, 0),
        "data": frame(DATA, "QQ", FLAT_TRANSFER, 0, data=bytes(64)),
        "rows": frame(DATA, "QQ", ROW_TRANSFER, 0, data=bytes(256)),
        "unmapped": frame(DATA, "QQ", UNMAPPED_TRANSFER, 0, data=bytes(16)),
        "host function": frame(HOST_FUNCTION, "Q", 3),
        "credit": frame(CREDIT, "Q", 3),
        "session error": frame(SESSION_ERROR, "I", 2, data=b"reason"),
        "graph function": frame(GRAPH_FUNCTION, "QQ", 3, 1),
        "graph output": frame(GRAPH_OUTPUT, "IIQ", STAGING, 0, 64, data=bytes(64)),
        "unknown graph output": frame(GRAPH_OUTPUT, "IIQ", UNKNOWN, 0, 0),
        "shared data": frame(SHARED_DATA, "QQQI", FLAT_TRANSFER, 0, 64, 1),
        "kernel output": frame(KERNEL_OUTPUT, "", data=b"text"),
        "pause": frame(PAUSE, "II", 1, STREAM) + frame(PAUSE, "II", 0, STREAM),
        "partition size": frame(PARTITION_SIZE, "IIQ", 0, 1, 1 << 30),
        "memory wanted": frame(MEMORY_WANTED, ""),
    }


def malformed_frames() -> dict[str, bytes]:
    short = {f"short{kind}": frame(kind, "") for kind in range(14)}
    return short | {
        "huge": struct.pack("<IHH", 1 << 31, 2, 0),
        "half": struct.pack("<IHH", 64, 2, 0) + bytes(8),
        "unknown kind": frame(99, ""),
        "unknown transfer": frame(DATA, "QQ", UNKNOWN, 0),
        "offset beyond the transfer": frame(DATA, "QQ", FLAT_TRANSFER, 1 << 20),
        "bytes beyond the transfer": frame(DATA, "QQ", FLAT_TRANSFER, 4090, data=bytes(64)),
        "offset beyond the buffer": frame(GRAPH_OUTPUT, "IIQ", STAGING, 0, 1 << 20),
        "bytes beyond the buffer": frame(GRAPH_OUTPUT, "IIQ", STAGING, 0, 1020, data=bytes(64)),
        "unknown partition": frame(PARTITION_SIZE, "IIQ", UNKNOWN, 0, 0),
        "unknown chunk": frame(SHARED_DATA, "QQQI", FLAT_TRANSFER, 0, 64, UNKNOWN),
        "bytes beyond the chunk": frame(SHARED_DATA, "QQQI", FLAT_TRANSFER, 0, 1 << 30, 1),
    }


def frame_seeds() -> dict[str, bytes]:
    """Return raw frames, with and without shared memory and functions, and a list of frames."""
    raw = valid_frames() | malformed_frames()
    seeds = {
        f"{name} {flags}": bytes([flags, 0xFF]) + content
        for name, content in raw.items()
        for flags in range(4)
    }
    listed = b"".join(bytes([kind, 24]) + struct.pack("<QQQ", 2, 0, 1) for kind in range(1, 14))
    return seeds | {"list": b"\0" + listed}


RECORD_BYTES, RING_BYTES = 32, 128 << 10


def ring_seeds() -> dict[str, bytes]:
    """Return heads and contents of rings; sizes of records at and beyond the limits."""

    def record(claimed: int = RECORD_BYTES) -> bytes:
        return struct.pack("<IHHII", claimed, 0x1019, 0, 1, 17) + bytes(16)

    def ring(head: int, content: bytes) -> bytes:
        return struct.pack("<QQ", head, 0) + content

    return {
        "one": ring(0, record()),
        "many": ring(16, record() * 20),
        "more than one call takes": ring(0, record() * 127 + record(48) + bytes(16)),
        "empty": ring(0, b""),
        "end of the memory": ring(RING_BYTES - 16, record()),
        "odd head": ring(8, record()),
        "below a header": ring(0, record(8)),
        "over the limit": ring(0, record(1 << 20)),
        "odd size": ring(0, record(24)),
    }


def ticket_seeds() -> dict[str, bytes]:
    """Return tickets, which the target signs if the first byte is 2, and grants."""

    def ticket(magic: bytes = b"BBT1", count: int = 1, key: int = 1, partitions: int = 1) -> bytes:
        body = magic + struct.pack("<IB", count, key) + bytes(7 + 96)
        return body + bytes(32 * partitions) + bytes(64)

    grant = bytes(320) + struct.pack("<II", 1, 1) + bytes(704)
    tickets = {
        "ticket": ticket(),
        "two partitions": ticket(count=2, partitions=2),
        "second key": ticket(key=0),
        "unknown key": ticket(key=9),
        "short": ticket()[:-100],
        "wrong magic": ticket(magic=b"BBT9"),
        "no partition": ticket(count=0, partitions=0),
        "partition too much": ticket(count=17, partitions=17),
        "wrong size": ticket(count=2),
    }
    return (
        {f"unsigned {name}": b"\0" + t for name, t in tickets.items()}
        | {f"signed {name}": b"\2" + t for name, t in tickets.items()}
        | {"grants": b"\1" + bytes(328), "grant": b"\1" + grant}
    )
