"""Seeds of the fuzz target `control`: messages between the processes of a node."""

from __future__ import annotations

import struct

# Decoders of the target: remoting/fuzz/control.cc.
CONTROL, SPAWN, LEDGER, COMPILER = range(4)
ROOM_BYTES = 128
"""Of the body of a control message."""
RESERVE, RELEASE, REFUSED_CALL, RECLAIM, RETURNED = 1, 2, 3, 9, 10
LIMIT_BYTES = 1 << 20


def chosen(decoder: int, data: bytes, descriptors: int = 0) -> bytes:
    return bytes([decoder, descriptors]) + data


def control_messages() -> dict[str, bytes]:
    def message(kind: int, body: bytes = b"", claimed: int | None = None) -> bytes:
        return struct.pack("<II", len(body) if claimed is None else claimed, kind) + body

    return {
        "status": chosen(CONTROL, message(202)),
        "two": chosen(CONTROL, message(202) + message(203, bytes(104))),
        "attached": chosen(CONTROL, message(201), 1),
        "attached twice": chosen(CONTROL, message(201), 2),
        "largest": chosen(CONTROL, message(204, bytes(ROOM_BYTES))),
        "too large": chosen(CONTROL, message(204, bytes(ROOM_BYTES + 1)), 1),
        "cut": chosen(CONTROL, message(203, bytes(4), claimed=104), 1),
        "header only": chosen(CONTROL, message(203)[:5]),
    }


def spawn_requests() -> dict[str, bytes]:
    request = struct.pack("<II32xI256s", 1, 0, 2, bytes(range(256)))
    return {
        "start": chosen(SPAWN, request, 2),
        "open": chosen(SPAWN, struct.pack("<II32s260x", 2, 77, bytes(range(32)))),
        "too many GPUs": chosen(SPAWN, struct.pack("<II32xI256x", 1, 0, 2**32 - 1), 2),
        "short": chosen(SPAWN, request[:-1], 1),
        "long": chosen(SPAWN, request + b"x"),
        "many descriptors": chosen(SPAWN, request, 4),
    }


def ledger_requests() -> dict[str, bytes]:
    def request(
        sequence: int, op: int, size: int = 0, partition: int = 0, name: bytes = b""
    ) -> bytes:
        return struct.pack("<QIIQ64s", sequence, op, partition, size, name)

    def requests(*of: bytes) -> bytes:
        return chosen(LEDGER, b"".join(of))

    half = request(1, RESERVE, LIMIT_BYTES // 2)
    return {
        "reserve": requests(half, request(2, RESERVE, LIMIT_BYTES // 2), request(3, RESERVE, 1)),
        "repeated": requests(half, half, half),
        "released": requests(half, request(2, RELEASE, 1 << 63)),
        "wraps": requests(half, request(2, RESERVE, (1 << 64) - 1)),
        "other partitions": requests(
            request(1, RESERVE, 1000, 1), request(2, RESERVE, 1, 2), request(3, RESERVE, 1, 99)
        ),
        "names": requests(
            request(1, REFUSED_CALL, name=b"cuInit"), request(2, REFUSED_CALL, name=b"x" * 64)
        ),
        "reclaimed": requests(half, request(2, RECLAIM, LIMIT_BYTES), request(3, RETURNED)),
        "unknown": requests(request(1, 99), request(7, RESERVE, 1)),
    }


def compiler_replies() -> dict[str, bytes]:
    def number(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}Q", *values)

    def text(value: bytes) -> bytes:
        return number(len(value)) + value

    kernel = text(b"k") + number(1024, 1, 0, 8)
    variable = text(b"g") + number(8, 8) + text(bytes(8)) + number(1, 0) + text(b"g") + number(4)
    module = number(1) + kernel + number(1) + variable
    compiled = text(b"/tmp/k.so") + number(1, 2, 3, 4, 1) + text(b"g")
    return {
        "module": chosen(COMPILER, module),
        "compiled": chosen(COMPILER, compiled),
        "cut text": chosen(COMPILER, number(1) + number(99) + bytes(60)),
        "many": chosen(COMPILER, number(1 << 60)),
        "cut number": chosen(COMPILER, bytes(4)),
        "cut module": chosen(COMPILER, module[:-4]),
    }


def control_seeds() -> dict[str, bytes]:
    return {
        f"{kind} {name}": data
        for kind, seeds in (
            ("control", control_messages()),
            ("spawn", spawn_requests()),
            ("ledger", ledger_requests()),
            ("compiler", compiler_replies()),
        )
        for name, data in seeds.items()
    }
