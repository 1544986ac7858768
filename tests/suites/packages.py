"""The packages of the client on other releases: `./test --long packages [PYTEST-ARGUMENT...]`.

Compiles the client libraries for an old glibc, makes root file systems with debootstrap at first
use (build/test-roots, minutes each), and runs programs on a partition from each of them. Needs root
and the mirrors of Debian and Ubuntu.
"""

from __future__ import annotations

import subprocess
import sys

from deploy.supervisor import ROOT


def main() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "exhaustive", "tests/packages"]
    sys.exit(subprocess.run([*command, *sys.argv[1:]], cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
