"""More generated requests for each operation of the REST interface: `./test --long requests`.

`./test --long complete` sends 8 for each operation, and none for the boundaries of its schemas.
Takes 8 minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys

from deploy.supervisor import ROOT

EXAMPLES = 50


def main() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "tests/system/test_any_request.py"]
    env = os.environ | {
        "BUSBAR_TEST_EXAMPLES": str(EXAMPLES),
        "BUSBAR_TEST_BOUNDARIES": "1",
        "BUSBAR_TEST_LONG": "1",
    }
    done = subprocess.run([*command, *sys.argv[1:]], cwd=ROOT, env=env, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
