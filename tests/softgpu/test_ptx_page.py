"""The page of PTX instructions is true: samples marked done translate, those marked refused are refused by name, and all are PTX."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.softgpu.driver import in_child
from tests.softgpu.ptx_instructions import DONE, PAGE, REFUSED, kernel, page
from tests.softgpu.test_random_programs import ptxas

NOT_SUPPORTED = 801
# ptxas wants another target, or more of a program around these, than a sample has.
NOT_FOR_PTXAS = (
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


def test_what_is_done_translates(tmp_path: Path) -> None:
    samples = [(name, s) for name, group in DONE.items() for s in group]
    results = in_child([{"ptx": kernel(s)} for _, s in samples], tmp_path)
    failed = [(s, r) for (_, s), r in zip(samples, results, strict=True) if isinstance(r, tuple)]
    assert not failed, failed


def test_what_is_refused_names_itself_and_its_line(tmp_path: Path) -> None:
    samples = [s for group in REFUSED.values() for s in group]
    for sample, result in zip(
        samples, in_child([{"ptx": kernel(s)} for s in samples], tmp_path), strict=True
    ):
        assert isinstance(result, tuple), sample
        assert result[1] == NOT_SUPPORTED, (sample, result)
        assert "ptx line 8" in result[2], (sample, result)
        assert sample.split()[0].split(".")[0].rstrip(";") in result[2], (sample, result)


@pytest.mark.parametrize("state", ["done", "refused"])
def test_samples_are_ptx(state: str, tmp_path: Path) -> None:
    for group in (DONE if state == "done" else REFUSED).values():
        for sample in group:
            if sample.startswith(NOT_FOR_PTXAS):
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


def test_the_page_is_not_stale() -> None:
    assert PAGE.read_text() == page()
