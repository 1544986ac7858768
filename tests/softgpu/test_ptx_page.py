"""The page of PTX instructions: supported samples translate, others fail with their name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.ptx_instructions import PAGE, REFUSED, SUPPORTED, kernel, page
from tests.softgpu.test_random_programs import ptxas

NOT_SUPPORTED = 801
# For these, ptxas requires another target or a larger program than a sample.
NOT_CHECKED_BY_PTXAS = (
    "tcgen05",
    "wgmma",
    "griddepcontrol",
    "multimem",
    "tensormap",
    "brkpt",
    "suld",
    "sust",
    "sured",
    "suq",
    "ldu",
)


def test_supported_samples_translate(tmp_path: Path) -> None:
    samples = [(name, s) for name, group in SUPPORTED.items() for s in group]
    results = run_in_child([{"ptx": kernel(s)} for _, s in samples], tmp_path)
    failed = [(s, r) for (_, s), r in zip(samples, results, strict=True) if isinstance(r, tuple)]
    assert not failed, failed


def test_unsupported_samples_fail_with_name_and_line(tmp_path: Path) -> None:
    samples = [s for group in REFUSED.values() for s in group]
    for sample, result in zip(
        samples, run_in_child([{"ptx": kernel(s)} for s in samples], tmp_path), strict=True
    ):
        assert isinstance(result, tuple), sample
        assert result[1] == NOT_SUPPORTED, (sample, result)
        assert "ptx line 9" in result[2], (sample, result)
        assert sample.split()[0].split(".")[0].rstrip(";") in result[2], (sample, result)


@pytest.mark.parametrize("state", ["supported", "refused"])
def test_samples_are_valid_ptx(state: str, tmp_path: Path) -> None:
    for group in (SUPPORTED if state == "supported" else REFUSED).values():
        for sample in group:
            if sample.startswith(NOT_CHECKED_BY_PTXAS):
                continue
            path = tmp_path / "sample.ptx"
            path.write_text(kernel(sample))
            done = subprocess.run(
                [ptxas(), "-arch=sm_120a", str(path), "-o", str(tmp_path / "out")],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (sample, done.stderr)


def test_ptx_page_is_current() -> None:
    assert PAGE.read_text() == page()
