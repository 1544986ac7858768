"""The data plane under AddressSanitizer and UndefinedBehaviorSanitizer: `./test --long sanitized`.

Client library, session server, launcher, spawner and software GPU are built with them. On them run
the conformance programs, the attacks on the data port and those with sizes that overflow. The
programs themselves are not instrumented. Tests that record calls of the driver load it with
RTLD_DEEPBIND, which the sanitizers do not permit.
"""

from __future__ import annotations

import os
import subprocess
import sys

from deploy.supervisor import ROOT

FOLDER = ROOT / "build" / "sanitized"
BUILD = """
. "$ROOT/deploy/setup.sh"
TARGETS="all failpoint_programs" build_remoting "$0" -DSANITIZE=address,undefined \
  -DCMAKE_BUILD_TYPE=Release
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
    runtime = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
    env = os.environ | OPTIONS | {"ROOT": str(ROOT)}
    subprocess.run(["sh", "-ec", BUILD, str(FOLDER)], cwd=ROOT, env=env, check=True)
    env |= {"BUSBAR_TEST_BUILD": str(FOLDER), "BUSBAR_TEST_PRELOAD": runtime}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "-k",
        "not record_claims",
        *TESTS,
        *sys.argv[1:],
    ]
    sys.exit(subprocess.run(command, cwd=ROOT, env=env, check=False).returncode)


if __name__ == "__main__":
    main()
