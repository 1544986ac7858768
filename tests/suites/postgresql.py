"""All tests of the appliance on PostgreSQL: `./test --long postgresql [PYTEST-ARGUMENT...]`.

CI runs the files of tests/postgresql.txt.
"""

from __future__ import annotations

import os
import subprocess
import sys

from deploy.supervisor import ROOT


def main() -> None:
    selection = ["-n", "2", "tests/appliance"]
    env = os.environ | {"BUSBAR_TEST_POSTGRESQL": "1"}
    command = [sys.executable, "-m", "pytest", *selection, *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=ROOT, env=env, check=False).returncode)


if __name__ == "__main__":
    main()
