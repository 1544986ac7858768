"""The check of sizes of clang-tidy reports planted products and sums, and no checked ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from deploy.supervisor import ROOT

PLANTED = Path(__file__).with_name("planted_sizes.cc")
FINDING = re.compile(r":(\d+):\d+: warning: .*\[custom-unchecked-(?:product|sum)\]")


def test_unchecked_products_and_sums_are_reported() -> None:
    command = [
        str(ROOT / ".venv" / "bin" / "clang-tidy"),
        "--quiet",
        "--experimental-custom-checks",
        f"--config-file={ROOT / 'remoting' / '.clang-tidy'}",
        "--checks=-*,custom-*",
        str(PLANTED),
        "--",
        "-std=c++20",
        f"-I{ROOT / 'remoting'}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = PLANTED.read_text().splitlines()
    wanted = [i for i, line in enumerate(lines, 1) if line.endswith("// finding")]
    assert sorted({int(n) for n in FINDING.findall(done.stdout)}) == wanted, done.stdout
    assert len(wanted) == 5


def test_check_covers_the_code_that_reads_values_of_clients() -> None:
    text = (ROOT / "remoting" / ".clang-tidy").read_text()
    for folder in ("server", "launcher", "spawner", "images", "api", "driver", "device", "client"):
        assert re.search(rf"remoting/\([^\n]*\b{folder}\b", text), folder
