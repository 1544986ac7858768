"""The fuzz targets: their sources, seeds, and build.

Ninja builds the sources of a target in parallel and again only after a change. The variant with a
planted fault shares the objects that do not differ.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.supervisor import BUILD, ROOT
from tests.remoting.conftest import cuda_include
from tests.suites.fuzz_control_seeds import control_seeds
from tests.suites.fuzz_image_seeds import image_seeds
from tests.suites.fuzz_record_seeds import record_seeds
from tests.suites.fuzz_seeds import frame_seeds, ptx_seeds, ring_seeds, ticket_seeds

REMOTING = ROOT / "remoting"
SOFTGPU = REMOTING / "softgpu"
GENERATED = BUILD / "generated"
OBJECTS = BUILD.parent / "fuzz"


@dataclass(frozen=True)
class Target:
    """A fuzz target.

    `sources` are compiled with the fuzzer; the branches of the files in `decoder` are counted. The
    planted fault is in the sources `planted`, or in all if there are none.
    """

    sources: tuple[Path, ...]
    decoder: tuple[Path, ...]
    seeds: Callable[[], dict[str, bytes]]
    length: int
    libraries: tuple[str, ...] = ()
    words: Callable[[], list[str]] = list
    planted: tuple[Path, ...] = ()
    least_percent: float = 90.0
    """Of the decoder's branches."""


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


TRANSPORT = (*sources_in("transport"), *sources_in("control"))
IMAGES = sources_in("images")
LEDGER = tuple(
    REMOTING / "launcher" / f"{n}.cc"
    for n in ("ledger", "ledger_page", "ledger_port", "ledgers", "pidfd")
)
SSL = ("-lssl", "-lcrypto", "-lpthread", "-ldl")
TARGETS = {
    "ptx": Target(
        (
            SOFTGPU / "fuzz" / "ptx.cc",
            *sources_in("softgpu/ptx"),
            *sources_in("softgpu/emit"),
            GENERATED / "softgpu_runtime_text.cc",
            REMOTING / "images" / "ptx_variables.cc",
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
            REMOTING / "cache_quota.cc",
            *IMAGES,
            *LEDGER,
            *TRANSPORT,
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
        planted=(REMOTING / "server" / "copy.cc",),
        least_percent=70.0,  # record_order.cc: random bytes rarely order changes of a live graph
    ),
    "frames": Target(
        (
            REMOTING / "fuzz" / "frames.cc",
            *(
                REMOTING / "client" / f"{n}.cc"
                for n in (
                    "link",
                    "link_bulk",
                    "link_frames",
                    "link_open",
                    "link_program_memory",
                    "link_shared",
                )
            ),
            *TRANSPORT,
        ),
        (REMOTING / "client" / "link_frames.cc",),
        frame_seeds,
        2048,
        SSL,
    ),
    "images": Target(
        (REMOTING / "fuzz" / "images.cc", REMOTING / "server" / "code_image.cc", *IMAGES),
        (
            REMOTING / "server" / "code_image.cc",
            *(REMOTING / "images" / f"{n}.cc" for n in ("archive", "elf", "fatbin")),
        ),
        image_seeds,
        4096,
        ("-ldl",),
        planted=(REMOTING / "images" / "elf.cc",),
        least_percent=89.0,  # the seeds alone reach 89.9
    ),
    "ring": Target(
        (
            REMOTING / "fuzz" / "ring.cc",
            REMOTING / "transport" / "ring.cc",
            REMOTING / "transport" / "ring_reader.cc",
        ),
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
            *LEDGER,
            *TRANSPORT,
        ),
        (REMOTING / "spawner" / "requests.cc", SOFTGPU / "jit" / "messages.h"),
        control_seeds,
        2048,
        SSL,
    ),
    "ticket": Target(
        (
            REMOTING / "fuzz" / "ticket.cc",
            *(REMOTING / "launcher" / f"{n}.cc" for n in ("ticket", "signature", "grants")),
            *LEDGER,
            *TRANSPORT,
        ),
        (REMOTING / "launcher" / "ticket.cc",),
        ticket_seeds,
        2048,
        SSL,
    ),
}


FLAGS = (
    "-std=c++20",
    "-O1",
    "-g1",
    "-fsanitize=fuzzer,address,undefined",
    "-fno-sanitize=function,alignment,vptr,enum",
    "-fno-sanitize-recover=undefined",
    "-fprofile-instr-generate",
    "-fcoverage-mapping",
    "-DBUSBAR_NVIDIA_RUNTIME",
)
PLANTED = "-DSOFTGPU_PLANTED_UNCHECKED -DBUSBAR_PLANTED_UNCHECKED"


def build_rules(target: Target, output: Path, planted: bool) -> str:
    """Return the text of a build.ninja."""
    folders = f"-I{REMOTING} -I{GENERATED} -isystem {cuda_include()}"
    lines = [
        f"flags = {' '.join(FLAGS)} {folders}",
        "rule compile",
        "  command = clang++ $flags $fault -MMD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "rule link",
        f"  command = clang++ $flags $in -o $out {' '.join(target.libraries)}",
    ]
    objects = []
    for source in target.sources:
        fault = planted and source in (target.planted or target.sources)
        name = f"{'planted' if fault else 'plain'}/{source.parent.name}-{source.stem}.o"
        objects.append(name)
        lines += [f"build {name}: compile {source}", f"  fault = {PLANTED if fault else ''}"]
    # The first definition of an inline function counts.
    objects.sort(key=lambda name: not name.startswith("planted"))
    return "\n".join([*lines, f"build {output}: link {' '.join(objects)}", ""])


def build(name: str, output: Path, planted: bool = False) -> None:
    """Build a target. With `planted`, the decoder lacks a check, which the fuzzer must find."""
    folder = OBJECTS / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "build.ninja").write_text(build_rules(TARGETS[name], output, planted))
        ninja = ROOT / ".venv" / "bin" / "ninja"
        done = subprocess.run(
            [ninja, "-C", folder, "-j", str(os.cpu_count())],
            env=os.environ | {"CCACHE_DISABLE": "1"},  # it would change the paths of the coverage
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"the fuzz target {name} does not build:\n{done.stdout[-4000:]}")
