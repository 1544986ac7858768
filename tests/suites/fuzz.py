"""libFuzzer on every decoder of untrusted bytes: `./test --long fuzz [TARGET…]` runs ten million inputs each, `python -m tests.suites.fuzz 60` a minute each.

Each target starts from its committed corpus (tests/corpus/TARGET) and prints executions, and the share of the decoder's branches that were taken.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deploy.supervisor import BUILD, ROOT
from tests.remoting.conftest import cuda_include
from tests.softgpu.ptx_instructions import DONE, REFUSED, kernel
from tests.softgpu.ptx_interpreter import Maker

RUNS = 10_000_000
REMOTING = ROOT / "remoting"
SOFTGPU = REMOTING / "softgpu"
GENERATED = BUILD / "generated"
CORPUS = ROOT / "tests" / "corpus"
BRANCHES_PERCENT = 90.0
OWN_CALLS = len(re.findall(r"CALL\((?!r\))\w+\)", (REMOTING / "fuzz" / "records.cc").read_text()))
"""Length of kOpcodes in remoting/fuzz/records.cc."""

Seeds = dict[str, bytes]


@dataclass(frozen=True)
class Target:
    """`sources` are compiled with the fuzzer; `decoder` are the files whose branches are counted."""

    sources: tuple[Path, ...]
    decoder: tuple[Path, ...]
    seeds: Callable[[], Seeds]
    length: int
    libraries: tuple[str, ...] = ()
    words: Callable[[], list[str]] = list


def ptx_words() -> list[str]:
    """The strings that the translator compares with: libFuzzer's dictionary."""
    found = {
        w
        for f in SOFTGPU.glob("*/*.cc")
        for w in f.read_text().split('"')[1::2]
        if 2 <= len(w) <= 24 and w.isprintable() and "\\" not in w
    }
    return sorted(f'"{w}"' for w in found)


def ptx_seeds() -> Seeds:
    samples = [kernel(s) for group in (*DONE.values(), *REFUSED.values()) for s in group]
    return {
        f"seed{i}": text.encode()
        for i, text in enumerate(
            [*samples, *(Maker(s, lockstep=s % 2 == 0).program() for s in range(6))]
        )
    }


def record_seeds() -> Seeds:
    """Every call once with small numbers, and a little program."""

    def call(which: int, place: int, *words: int) -> bytes:
        payload = struct.pack(f"<{len(words)}Q", *words)
        return bytes([which, place]) + struct.pack("<H", len(payload)) + payload

    seeds = {
        f"call{which}": b"\0\0\0\0" + call(which, 5, *([1] * 12))
        for which in range(OWN_CALLS + 0xC0)
    }
    seeds["raw"] = b"\0\0\0\0\xff" + struct.pack("<IHHII", 32, 0x1019, 0, 1, 17) + bytes(16)
    return seeds


def frame_seeds() -> Seeds:
    frame = b"".join(bytes([kind, 24]) + struct.pack("<QQQ", 2, 0, 1) for kind in range(1, 11))
    huge, half = struct.pack("<IHH", 1 << 31, 2, 0), struct.pack("<IHH", 64, 2, 0) + bytes(8)
    return {
        "frames": b"\0" + frame,
        "shared": b"\1" + frame,
        "no functions": b"\2" + frame,
        "unmapped": b"\0" + bytes([3, 32]) + struct.pack("<QQ", 5, 0) + bytes(16),
        "huge": b"\0\xff" + huge,
        "half": b"\0\xff" + half,
        "wrong": b"\0\xff" + struct.pack("<IHH", 0, 99, 0),
    }


def ring_seeds() -> Seeds:
    record = struct.pack("<IHHII", 32, 0x1019, 0, 1, 17) + bytes(16)
    return {
        "one": struct.pack("<QQ", 0, 32) + record,
        "many": struct.pack("<QQ", 16, 0) + record * 20,
    }


def ticket_seeds() -> Seeds:
    ticket = b"BBT1" + struct.pack("<I", 1) + bytes(104 + 32 + 64)
    grant = bytes(192) + struct.pack("<II", 1, 1) + bytes(568)
    return {
        "ticket": b"\0" + ticket,
        "signed": b"\2" + ticket,
        "grants": b"\1" + bytes(200),
        "grant": b"\1" + grant,
    }


def in_folder(folder: str, *, without: str = "") -> tuple[Path, ...]:
    return tuple(p for p in sorted((REMOTING / folder).glob("*.cc")) if p.name != without)


TRANSPORT = (*in_folder("transport"), REMOTING / "control" / "messages.cc")
SSL = ("-lssl", "-lcrypto", "-lpthread", "-ldl")
TARGETS = {
    "ptx": Target(
        (
            SOFTGPU / "fuzz" / "ptx.cc",
            *in_folder("softgpu/ptx"),
            *in_folder("softgpu/emit"),
            GENERATED / "softgpu_runtime_text.cc",
        ),
        (SOFTGPU / "ptx" / "lexer.cc", SOFTGPU / "ptx" / "parser.cc"),
        ptx_seeds,
        4096,
        words=ptx_words,
    ),
    "records": Target(
        (REMOTING / "fuzz" / "records.cc", *in_folder("server", without="main.cc"), *TRANSPORT),
        (REMOTING / "wire" / "decode.h", REMOTING / "server" / "dispatch.cc"),
        record_seeds,
        4096,
        SSL,
    ),
    "frames": Target(
        (
            REMOTING / "fuzz" / "frames.cc",
            *(
                REMOTING / "client" / f"{n}.cc"
                for n in ("link", "frames", "program_memory", "shared_link", "bulk")
            ),
            *TRANSPORT,
        ),
        (REMOTING / "client" / "frames.cc",),
        frame_seeds,
        2048,
        SSL,
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
    "ticket": Target(
        (
            REMOTING / "fuzz" / "ticket.cc",
            *(REMOTING / "launcher" / f"{n}.cc" for n in ("ticket", "signature", "grants")),
            REMOTING / "server" / "ledger.cc",
        ),
        (REMOTING / "launcher" / "ticket.cc",),
        ticket_seeds,
        2048,
        SSL,
    ),
}


def build(name: str, target: Path, planted: bool = False) -> None:
    """With `planted`, the decoder forgets a check: what the fuzzer must find."""
    t = TARGETS[name]
    flags = [
        "-std=c++20",
        "-O1",
        "-g1",
        "-fsanitize=fuzzer,address,undefined",
        "-fno-sanitize=function,alignment,vptr,enum",
        "-fno-sanitize-recover=undefined",
    ]
    flags += [
        "-fprofile-instr-generate",
        "-fcoverage-mapping",
        "-DBUSBAR_NVIDIA_RUNTIME",
        f"-I{REMOTING}",
        f"-I{GENERATED}",
        "-isystem",
        str(cuda_include()),
    ]
    define = ["-DSOFTGPU_PLANTED_UNCHECKED", "-DBUSBAR_PLANTED_UNCHECKED"] if planted else []
    subprocess.run(
        ["clang++", *flags, *define, *map(str, t.sources), "-o", str(target), *t.libraries],
        check=True,
    )


def seed(name: str, folder: Path) -> None:
    """What the other tests make, and what fuzzing found before."""
    folder.mkdir()
    if (CORPUS / name).exists():
        shutil.copytree(CORPUS / name, folder, dirs_exist_ok=True)
    for file, content in TARGETS[name].seeds().items():
        (folder / file).write_bytes(content)


def run(
    name: str, target: Path, folder: Path, limit: list[str]
) -> subprocess.CompletedProcess[str]:
    seed(name, folder / "corpus")
    command = [
        str(target),
        *limit,
        f"-max_len={TARGETS[name].length}",
        "-timeout=20",
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
    ]
    if words := TARGETS[name].words():
        (folder / "words").write_text("\n".join(words))
        command.append(f"-dict={folder / 'words'}")
    env = os.environ | {
        "LLVM_PROFILE_FILE": str(folder / "profile"),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    }
    return subprocess.run(
        [*command, str(folder / "corpus")],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def branches(name: str, target: Path, folder: Path) -> float:
    """Percent of the decoder's branches that were taken both ways."""
    version = subprocess.run(
        ["clang++", "-dumpversion"], capture_output=True, text=True, check=True
    ).stdout.split(".")[0]
    tool = {n: shutil.which(f"{n}-{version}") or n for n in ("llvm-profdata", "llvm-cov")}
    subprocess.run(
        [tool["llvm-profdata"], "merge", str(folder / "profile"), "-o", str(folder / "merged")],
        check=True,
    )
    files = [str(f) for f in TARGETS[name].decoder]
    command = [
        tool["llvm-cov"],
        "export",
        "-summary-only",
        str(target),
        f"-instr-profile={folder / 'merged'}",
        *files,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["data"][0]["totals"]["branches"]["percent"])


def fuzz(name: str, seconds: int) -> str:
    """An empty string, or what is wrong."""
    folder = Path(tempfile.mkdtemp(prefix=f"busbar-fuzz-{name}-"))
    target = BUILD.parent / f"fuzz-{name}"
    build(name, target)
    done = run(
        name, target, folder, [f"-max_total_time={seconds}"] if seconds else [f"-runs={RUNS}"]
    )
    executed = next(
        (
            line.split()[-1]
            for line in done.stderr.splitlines()
            if "number_of_executed_units" in line
        ),
        "no",
    )
    if done.returncode:
        return f"{name}: the fuzzer found something after {executed} inputs: the input lies in {folder}\n{done.stderr[-4000:]}"
    percent = branches(name, target, folder)
    print(f"{name}: {executed} inputs, {percent:.1f} % of the decoder's branches", flush=True)
    return (
        ""
        if percent >= BRANCHES_PERCENT
        else f"{name}: fewer than {BRANCHES_PERCENT} % of the branches were reached ({percent:.1f} %)"
    )


def main() -> None:
    seconds = next((int(a) for a in sys.argv[1:] if a.isdigit()), 0)
    names = [a for a in sys.argv[1:] if not a.isdigit()] or list(TARGETS)
    with ThreadPoolExecutor(2) as two:
        problems = [p for p in two.map(lambda n: fuzz(n, seconds), names) if p]
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
