"""The tests that CI leaves out: `./test --long complete [PYTEST-ARGUMENT...]`.

They have the marker `long`: more cases and more repetitions of what shorter tests show.
"""

from __future__ import annotations

import os
import subprocess
import sys

from deploy.supervisor import ROOT

NO_TEST_SELECTED = 5


def main() -> None:
    env = os.environ | {"BUSBAR_TEST_LONG": "1"}
    for marker, processes in (("long and not alone", "2"), ("long and alone", "0")):
        options = ["-n", processes, "-m", marker, "-o", "faulthandler_timeout=3600"]
        command = [sys.executable, "-m", "pytest", *options, *sys.argv[1:]]
        status = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
        if status not in (0, NO_TEST_SELECTED):
            sys.exit(status)


if __name__ == "__main__":
    main()
