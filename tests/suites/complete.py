"""The tests that the gate leaves out: `./test --long complete [PYTEST-ARGUMENT...]`.

They have the marker `long`: they take minutes, repeat what shorter tests show, or measure. One
process runs them, so that no other test takes part of the machine from those that measure.
"""

from __future__ import annotations

import os
import subprocess
import sys

from deploy.supervisor import ROOT

OPTIONS = ["-n", "0", "-m", "long", "-o", "faulthandler_timeout=3600"]


def main() -> None:
    env = os.environ | {"BUSBAR_TEST_LONG": "1"}
    command = [sys.executable, "-m", "pytest", *OPTIONS, *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=ROOT, env=env, check=False).returncode)


if __name__ == "__main__":
    main()
