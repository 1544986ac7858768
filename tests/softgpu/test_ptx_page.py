"""The page of PTX instructions: supported samples translate, others fail with their name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.modifier_forms import rejected_by_ptxas
from tests.softgpu.ptx_instructions import PAGE, REFUSED, SUPPORTED, kernel, page

NOT_SUPPORTED = 801
BATCH = 25
"""Samples in a kernel: the compiler needs longer to start than for a sample."""
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
    samples = [s for group in SUPPORTED.values() for s in group]
    batches = [samples[at : at + BATCH] for at in range(0, len(samples), BATCH)]
    texts = ["\n".join(f"{{ {s} }}" for s in batch) for batch in batches]
    results = run_in_child([{"ptx": kernel(text)} for text in texts], tmp_path)
    failed = [(b, r) for b, r in zip(batches, results, strict=True) if isinstance(r, tuple)]
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
    groups = SUPPORTED if state == "supported" else REFUSED
    samples = [s for group in groups.values() for s in group]
    checked = [s for s in samples if not s.startswith(NOT_CHECKED_BY_PTXAS)]
    assert rejected_by_ptxas(checked, tmp_path) == {}


def test_ptx_page_is_current() -> None:
    assert PAGE.read_text() == page()
