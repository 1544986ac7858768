"""Unit tests of the console's components, which Vitest runs beside them."""

from __future__ import annotations

import os
import subprocess

from deploy.supervisor import ROOT


def test_vitest_passes() -> None:
    env = os.environ | {"PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["npm", "test", "--silent"],
        cwd=ROOT / "frontend",
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
