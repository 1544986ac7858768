"""The fuzz targets: their sources, and the decoders that they cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.supervisor import BUILD
from tests.suites.fuzz_connection_seeds import bulk_seeds, connection_seeds, reply_seeds
from tests.suites.fuzz_control_seeds import control_seeds
from tests.suites.fuzz_faults import REMOTING
from tests.suites.fuzz_image_seeds import image_seeds
from tests.suites.fuzz_record_seeds import record_seeds
from tests.suites.fuzz_seeds import frame_seeds, ptx_seeds, ring_seeds, ticket_seeds

SOFTGPU = REMOTING / "softgpu"
GENERATED = BUILD / "generated"


@dataclass(frozen=True)
class Target:
    """A fuzz target.

    `sources` are compiled with the fuzzer; the branches of the files in `decoder` are counted.
    """

    sources: tuple[Path, ...]
    decoder: tuple[Path, ...]
    seeds: Callable[[], dict[str, bytes]]
    length: int
    libraries: tuple[str, ...] = ()
    words: Callable[[], list[str]] = list
    least_percent: float = 90.0
    """Of the decoder's branches."""
    functions: tuple[str, ...] = ()
    """The functions of the decoder that read untrusted bytes; empty: all."""


def ptx_words() -> list[str]:
    """Return libFuzzer's dictionary: the string literals of the PTX translator."""
    found = {
        w
        for f in SOFTGPU.glob("*/*.cc")
        for w in f.read_text().split('"')[1::2]
        if 2 <= len(w) <= 24 and w.isprintable() and "\\" not in w
    }
    return sorted(f'"{w}"' for w in found)


def sources_in(folder: str, *, without: str = "") -> tuple[Path, ...]:
    return tuple(p for p in sorted((REMOTING / folder).glob("*.cc")) if p.name != without)


LIBRARY = (
    *(source for folder in ("transport", "control", "images") for source in sources_in(folder)),
    *sources_in("launcher", without="main.cc"),
    REMOTING / "cache_quota.cc",
)
"""Linked to each target as far as it uses them."""
LINK = (
    *(REMOTING / "client" / f"link{part}.cc" for part in ("", "_bulk", "_frames", "_open")),
    *(REMOTING / "client" / f"link{part}.cc" for part in ("_program_memory", "_shared")),
    REMOTING / "client" / "kernel_output.cc",
)
SSL = ("-lssl", "-lcrypto", "-lpthread", "-ldl")
TARGETS = {
    "ptx": Target(
        (
            SOFTGPU / "fuzz" / "ptx.cc",
            *sources_in("softgpu/ptx"),
            *sources_in("softgpu/emit"),
            GENERATED / "softgpu_runtime_text.cc",
        ),
        (SOFTGPU / "ptx" / "lexer.cc", SOFTGPU / "ptx" / "parser.cc"),
        ptx_seeds,
        4096,
        words=ptx_words,
    ),
    "records": Target(
        (
            REMOTING / "fuzz" / "records.cc",
            *sources_in("server", without="main.cc"),
        ),
        (
            REMOTING / "wire" / "decode.h",
            *(
                REMOTING / "server" / f"{name}.cc"
                for name in ("record_reader", "record_order", "submit")
            ),
        ),
        record_seeds,
        4096,
        SSL,
    ),
    "frames": Target(
        (REMOTING / "fuzz" / "frames.cc", *LINK),
        (REMOTING / "client" / "link_frames.cc",),
        frame_seeds,
        2048,
        SSL,
        functions=(
            *(f"Link::{n}" for n in ("parse_frames", "deliver_transfer", "deliver_graph_output")),
            *(f"Link::handle_{n}" for n in ("frame", "pause", "partition_size", "graph_output")),
            *(f"Link::handle_{n}" for n in ("reply", "shared_data", "completion")),
        ),
    ),
    "images": Target(
        (
            REMOTING / "fuzz" / "images.cc",
            *(REMOTING / "server" / f"{n}.cc" for n in ("code_image", "image_memory")),
        ),
        (
            *(REMOTING / "server" / f"{n}.cc" for n in ("code_image", "image_memory")),
            *(
                REMOTING / "images" / f"{n}.cc"
                for n in ("archive", "elf", "fatbin", "ptx_variables")
            ),
        ),
        image_seeds,
        4096,
        ("-ldl",),
    ),
    "ring": Target(
        (REMOTING / "fuzz" / "ring.cc",),
        (REMOTING / "transport" / "ring_reader.cc",),
        ring_seeds,
        4096,
    ),
    "control": Target(
        (
            REMOTING / "fuzz" / "control.cc",
            REMOTING / "spawner" / "requests.cc",
            SOFTGPU / "jit" / "limits.cc",
            SOFTGPU / "jit" / "messages.cc",
        ),
        (REMOTING / "spawner" / "requests.cc", SOFTGPU / "jit" / "messages.h"),
        control_seeds,
        2048,
        SSL,
    ),
    "ticket": Target(
        (REMOTING / "fuzz" / "ticket.cc",),
        (REMOTING / "launcher" / "ticket.cc",),
        ticket_seeds,
        2048,
        SSL,
    ),
    "connections": Target(
        (REMOTING / "fuzz" / "connections.cc",),
        (REMOTING / "launcher" / "first_bytes.cc",),
        connection_seeds,
        5000,
        SSL,
    ),
    "session_replies": Target(
        (REMOTING / "fuzz" / "session_replies.cc",),
        (REMOTING / "launcher" / "session_start.cc",),
        reply_seeds,
        2048,
        SSL,
        least_percent=87.0,  # the start message is always sent
    ),
    "bulk": Target(
        (
            REMOTING / "fuzz" / "bulk.cc",
            REMOTING / "fuzz" / "plain_tls.cc",
            *(REMOTING / "server" / f"{n}.cc" for n in ("bulk_transfers", "pinned_pool")),
            *LINK,
        ),
        (REMOTING / "server" / "bulk_transfers.cc", REMOTING / "client" / "link_bulk.cc"),
        bulk_seeds,
        4096,
        SSL,
        functions=(
            *(f"BulkTransfers::{n}" for n in ("read_exactly", "read_chunk", "receive", "add")),
            *(f"Link::{n}" for n in ("read_bulk", "receive_bulk_chunk")),
        ),
        least_percent=80.0,  # the target never waits for the socket
    ),
}
