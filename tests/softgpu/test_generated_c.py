"""All C that the translator generates accesses memory through checked addresses only."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.supervisor import ROOT, SOFTGPU
from tests.softgpu.access_forms import DECLARATIONS, MODES, cases, program
from tests.softgpu.generated_c import unchecked_accesses
from tests.softgpu.ptx_instructions import SUPPORTED
from tests.softgpu.ptx_instructions import kernel as sample_kernel
from tests.softgpu.ptx_interpreter import ProgramGenerator
from tests.softgpu.test_access_forms import ROW


def corpus() -> Iterator[tuple[str, str]]:
    """Yield the names and texts of programs with every supported instruction and access."""
    for samples in SUPPORTED.values():
        for sample in samples:
            yield sample, sample_kernel(sample)
    for seed in range(20):
        yield f"program {seed}", ProgramGenerator(seed, lockstep=seed % 2 == 0).program()
    for path in sorted((ROOT / "tests" / "corpus" / "ptx").iterdir()):
        yield path.name, path.read_text(errors="replace")
    for mode in MODES:
        texts = sorted({c.text for c in cases(mode == "lockstep")})
        yield f"access forms, {mode}", program(mode, texts)
    yield (
        "row",
        DECLARATIONS + ROW.replace("SIZE", "4").replace("BITS", "32").replace("REGISTER", "%r2"),
    )


def test_generated_code_has_no_raw_address(tmp_path: Path) -> None:
    found, translated = [], 0
    for i, (name, text) in enumerate(corpus()):
        file = tmp_path / f"{i}.ptx"
        file.write_text(text)
        command = [str(SOFTGPU / "softgpu-translate"), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        translated += "softgpu_kernel" in done.stdout
        found += [f"{name}: {place}" for place in unchecked_accesses(done.stdout)[:3]]
    assert not found, "\n".join(found[:20])
    assert translated > 150


@pytest.mark.parametrize(
    "statement",
    [
        "u32 v = *(u32*)(params + 8);",
        "*m = 0;",
        "r1 = (u32)*x;",
        "((u32*)p0)[3] = r1;",
        "q7[r1] = 0;",
        "u8* a = (u8*)(u64)r1;",
        "r1 = LOAD(u32, a, 0) + a.at;",
        "__builtin_memcpy(params, c->params, r1);",
        "r1 = c->owner->fault;",
        "r1 = f(&own);",
        "system(r1);",
        'asm("syscall");',
        "LOAD(u32, access_of((Bytes)(u64)r1), 0);",
        "LOAD(u32, (Access){r1}, 0);",
        "LOAD(u64, single_parameter(arg1, 0x108u, 8, 0x0ull), 0);",
        "LOAD(u64, single_parameter(params, 0x4u, 8, 0x8ull), 0);",
        "LOAD(u64, single_parameter(params, r1, 8, 0x8ull), 0);",
    ],
)
def test_raw_address_is_found(statement: str) -> None:
    assert unchecked_accesses(f"static void f_1() {{ {statement} }}")
