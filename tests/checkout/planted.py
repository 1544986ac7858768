"""Sources with planted faults: clang-tidy must report the lines that end with "// finding"."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from deploy.supervisor import ROOT

FINDING = re.compile(r":(\d+):\d+: warning: ")


def reported_lines(source: Path, checks: str) -> list[int]:
    """Return the lines of a source that the checks of our own and `checks` report."""
    command = [
        str(ROOT / ".venv" / "bin" / "clang-tidy"),
        "--quiet",
        "--experimental-custom-checks",
        f"--config-file={ROOT / 'remoting' / '.clang-tidy'}",
        f"--checks=-*,custom-*,{checks}",
        str(source),
        "--",
        "-std=c++20",
        f"-I{ROOT / 'remoting'}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "error: " not in done.stdout, done.stdout
    return sorted({int(n) for n in FINDING.findall(done.stdout)})


def planted_lines(source: Path) -> list[int]:
    lines = source.read_text().splitlines()
    return [i for i, line in enumerate(lines, 1) if line.endswith("// finding")]
