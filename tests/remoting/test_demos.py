"""The demo programs refuse what they do not know, before they use a GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deploy.supervisor import BUILD, ROOT

PROGRAMS = {
    "gpu_demo": ([str(BUILD / "demo" / "gpu_demo")], ("add", "memory", "exhaust", "work")),
    "numba_demo": (
        [sys.executable, str(ROOT / "deploy" / "demo" / "numba_demo.py")],
        ("saxpy", "matmul", "reduction"),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_unknown_program_is_refused_with_those_that_exist(name: str) -> None:
    command, known = PROGRAMS[name]
    done = subprocess.run(
        [*command, "bogus"],
        env=os.environ | {"LD_LIBRARY_PATH": str(BUILD / "client")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and done.stdout == ""
    assert f'{name}: unknown program "bogus"' in done.stderr and "Traceback" not in done.stderr
    assert all(word in done.stderr for word in known)
