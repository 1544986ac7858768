"""Stream captures on the software GPU while other threads use the stream."""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploy.supervisor import BUILD
from tests.remoting.conftest import PROGRAMS, cuda_include
from tests.remoting.node import direct_environment

SOURCE = Path(__file__).with_name("capture_threads.c")


def test_stream_works_after_captures_during_calls_of_other_threads(tmp_path: Path) -> None:
    program = tmp_path / "capture_threads"
    flags = ["-O1", "-Wall", "-Werror", f"-I{cuda_include()}", f"-I{PROGRAMS}"]
    libraries = [f"-L{BUILD / 'softgpu'}", "-lcuda", "-lpthread"]
    subprocess.run(["gcc", *flags, "-o", program, SOURCE, *libraries], check=True)
    done = subprocess.run(
        [program],
        env=direct_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "wrong: 0\n"), done.stderr
