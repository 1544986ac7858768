"""One test many times beside two busy loops: `./test --flaky N TEST [PYTEST-OPTION...]`.

The loops give the test about half a core of two, as on a slower or shared machine.
"""

from __future__ import annotations

import os
import subprocess
import sys

from deploy.supervisor import ROOT

LOOPS = 2
USAGE = "Usage: ./test --flaky N TEST, for example: ./test --flaky 20 tests/nodes/test_agent.py"


def run_once(arguments: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-n", "0", *arguments]
    env = os.environ | {"BUSBAR_TEST_LONG": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode == 0


def main() -> None:
    if len(sys.argv) < 3 or not sys.argv[1].isdecimal():
        raise SystemExit(USAGE)
    rounds = int(sys.argv[1])
    loop = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(loop) for _ in range(LOOPS)]
    try:
        passed = sum(run_once(sys.argv[2:]) for _ in range(rounds))
    finally:
        for process in loops:
            process.kill()
    print(f"flaky: passed {passed} of {rounds} times")
    raise SystemExit(passed != rounds)


if __name__ == "__main__":
    main()
