"""Launcher and session server under AddressSanitizer and UndefinedBehaviorSanitizer.

`./test --long sanitized` builds them and runs on them the conformance programs, the attacks on the
data port and those with sizes that overflow.
"""

from __future__ import annotations

import os
import subprocess
import sys

from deploy.supervisor import ROOT

FOLDER = ROOT / "build" / "sanitized"
BUILD = """
. "$ROOT/deploy/setup.sh"
TARGETS="busbar-launcher busbar-spawner busbar-session" \
  build_remoting "$0" -DSANITIZE=address,undefined -DCMAKE_BUILD_TYPE=Release
"""
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}
TESTS = [
    f"tests/remoting/test_{name}.py"
    for name in ("conformance", "aggregate", "port", "size_overflows")
]


def main() -> None:
    env = os.environ | OPTIONS | {"ROOT": str(ROOT), "BUSBAR_TEST_LAUNCHER": str(FOLDER)}
    subprocess.run(["sh", "-ec", BUILD, str(FOLDER)], cwd=ROOT, env=env, check=True)
    command = [sys.executable, "-m", "pytest", "-n", "2", *TESTS, *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=ROOT, env=env, check=False).returncode)


if __name__ == "__main__":
    main()
