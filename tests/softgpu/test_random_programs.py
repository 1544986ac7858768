"""Random PTX programs on the software GPU and in a reference interpreter; registers must match."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import nvidia
import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.ptx_interpreter import ProgramGenerator, run

GATE = range(3)
MORE = range(3, 40)
"""Each program is a compilation."""


def initial_registers(seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1 << 32, (8, 32), dtype=np.uint32)
    # Small numbers reach more branches.
    values[:4, ::3] = rng.integers(0, 40, values[:4, ::3].shape)
    values[5] = np.arange(32) * 0x01010101
    return values


def ptxas() -> str:
    return str(next(p for base in nvidia.__path__ for p in Path(base).glob("*/bin/ptxas")))


@pytest.mark.parametrize("numbers", [GATE, pytest.param(MORE, marks=pytest.mark.long)])
@pytest.mark.parametrize("lockstep", [False, True], ids=["threads", "warps"])
def test_registers_match_reference_interpreter(
    lockstep: bool, numbers: range, tmp_path: Path
) -> None:
    seeds = [1000 * lockstep + i for i in numbers]
    programs = [ProgramGenerator(seed, lockstep).program() for seed in seeds]
    jobs = [
        {"ptx": p, "kernel": "k", "grid": 1, "block": 32, "arrays": [initial_registers(s)]}
        for p, s in zip(programs, seeds, strict=True)
    ]
    for seed, program, result in zip(seeds, programs, run_in_child(jobs, tmp_path), strict=True):
        assert not isinstance(result, tuple), (seed, result)
        expected, actual = run(program, initial_registers(seed)), result[0]
        same = expected == actual
        assert same.all(), f"seed {seed}, register {np.argwhere(~same)[0]}\n{program}"


def test_random_programs_are_valid_ptx(tmp_path: Path) -> None:
    for seed in (1, 2, 1001, 1002):
        path = tmp_path / f"{seed}.ptx"
        path.write_text(ProgramGenerator(seed, seed > 1000).program())
        done = subprocess.run(
            [ptxas(), "-arch=sm_80", str(path), "-o", str(tmp_path / "out")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_wrong_translation_is_detected(tmp_path: Path) -> None:
    program = next(
        p for p in (ProgramGenerator(s, False).program() for s in range(100)) if "shr.s32" in p
    )
    planted = program.replace("shr.s32", "shr.u32")
    results = run_in_child(
        [
            {"ptx": p, "kernel": "k", "grid": 1, "block": 32, "arrays": [initial_registers(5)]}
            for p in (program, planted)
        ],
        tmp_path,
    )
    assert (results[0][0] == run(program, initial_registers(5))).all()
    assert (results[1][0] != run(program, initial_registers(5))).any()
