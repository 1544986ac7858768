"""Every supported sample of an instruction with each modifier of the PTX manual added to it.

The translator must refuse a form, or use the modifier: its C differs from that of the sample.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.supervisor import SOFTGPU
from tests.softgpu.ptx_instructions import REGISTERS, SUPPORTED
from tests.softgpu.test_random_programs import ptxas

TYPES = (
    "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 tf32 f32 f64 pred f16x2 bf16x2 "
    "f32x2 s16x2 u16x2 e4m3x2 e5m2x2 ue8m0x2 e2m1x2 e4m3 e5m2 s4 u4 b1"
)
WORDS = (
    "rn rz rm rp rna rs rni rzi rmi rpi ftz sat satfinite relu NaN xorsign abs approx full lo hi "
    "wide cc oob noftz l r clamp wrap shiftamt f4e b4e rc8 ecl ecr rc16 eq ne lt le gt ge ltu leu "
    "gtu geu equ neu num nan ls hs and or xor finite infinite number notanumber normal subnormal "
    "global shared shared::cta shared::cluster local const param param::entry param::func v2 v4 "
    "v8 volatile relaxed acquire release acq_rel sc weak mmio cta cluster gpu sys gl ca cg cs lu "
    "cv wb wt nc unified L1::no_allocate L1::evict_last L2::128B L2::evict_first L2::cache_hint "
    "add min max inc dec exch cas sync aligned up down bfly idx any all uni ballot red popc "
    "arrive expect_tx parity noComplete noinc to x1 x2 x4 trans row col m8n8 m8n16 m16n8k16 "
    "m16n8k8 m16n16k16 kind::f8f6f4 kind::mxf8f6f4 block_scale scale_vec::1X 1d 2d 3d a1d base "
    "level grad proxy alias async bulk generic warp mbarrier first second add2 dim "
    "sp::ordered_metadata"
)

FIRST_LINE = 4  # of the forms in a module
MODULE_FORMS = 4000  # kernels of one module: its tokens are limited


@dataclass(frozen=True)
class Form:
    """A sample with a modifier at one place."""

    sample: str
    modifier: str
    text: str


def opcode(sample: str) -> str:
    """Return the opcode with its modifiers."""
    words = sample.split()
    return words[1] if words[0].startswith("@") else words[0].rstrip(";")


def forms() -> Iterator[Form]:
    """Yield each sample with each modifier in front of its last modifier and behind it."""
    for samples in SUPPORTED.values():
        for sample in samples:
            word = opcode(sample).rstrip(";")
            head, dot, last = word.rpartition(".")
            for modifier in (*TYPES.split(), *WORDS.split()):
                places = {f"{word}.{modifier}"}
                if dot:
                    places.add(f"{head}.{modifier}.{last}")
                for place in sorted(places):
                    yield Form(sample, modifier, sample.replace(word, place, 1))


def module(texts: list[str]) -> str:
    """Return a module with one kernel of one line for each text."""
    lines = [".version 9.2", ".target sm_120a", ".address_size 64"]
    registers = " ".join(REGISTERS.split())
    lines += [
        f".visible .entry k{i}(.param .u64 p) {{ {registers} {text} ret; }}"
        for i, text in enumerate(texts)
    ]
    return "\n".join(lines) + "\n"


def digests(texts: list[str], folder: Path, translator: Path | None = None) -> list[str]:
    """Return for each text a number of its C, or "line N: reason"."""
    parts = (len(texts) + MODULE_FORMS - 1) // MODULE_FORMS
    paths = [folder / f"forms-{i}.ptx" for i in range(parts)]
    for i, path in enumerate(paths):
        path.write_text(module(texts[i * MODULE_FORMS : (i + 1) * MODULE_FORMS]))
    command = [str(translator or SOFTGPU / "softgpu-translate"), "--digest", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split(" ", 1)[1] for line in done.stdout.splitlines()]
    assert len(lines) == len(texts), done.stdout[:500]
    return lines


def is_refusal(digest: str) -> bool:
    return digest.startswith("line ")


def rejected_by_ptxas(texts: list[str], folder: Path) -> dict[str, str]:
    """Return the texts that ptxas rejects, with its reasons."""
    rejected: dict[str, str] = {}
    path = folder / "checked.ptx"
    while True:
        left = [t for t in texts if t not in rejected]
        path.write_text(module(left))
        command = [ptxas(), "-arch=sm_120a", "-O0", str(path), "-o", str(folder / "out")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return rejected
        errors = re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", done.stderr)
        assert errors, done.stderr
        rejected |= {left[int(line) - FIRST_LINE]: reason for line, reason in errors}
