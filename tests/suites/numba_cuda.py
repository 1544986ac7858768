"""The test suite of the numba-cuda wheel; each module runs in its own process.

`./test --long numba_cuda [--remoted] [MODULE…]` prints one JSON object with the counts and the
tests that did not pass. It fails if the failed tests differ from numba_remainder.toml. The tests
run directly on the software GPU, or with `--remoted` through a node.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tomllib

from nodes.launcher_control import Partition
from tests.remoting.node import LocalNode, direct_environment, gpu_uuids, softgpu_environment

REMAINDER = Path(__file__).with_name("numba_remainder.toml")

NODE: list[LocalNode] = []
"""The node that runs the modules; empty if they run directly on the software GPU."""
MODULE_SECONDS = 1500
MEMORY_BYTES = 4 << 30
# unittest does not run the pytest fixture of these modules, which sets this attribute.
FILECHECK_ATTRIBUTE = "_dump_failed_filechecks"


class Record(unittest.TestResult):
    """Outcome and reason of every test. A failed subtest fails its test."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, tuple[str, str]] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        print(test.id(), file=sys.stderr, flush=True)

    def record(self, test: Any, outcome: str, reason: str = "") -> None:
        name = getattr(test, "test_case", test).id() if not isinstance(test, str) else test
        if self.outcomes.get(name, ("",))[0] != "failed":
            self.outcomes[name] = (outcome, reason)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.record(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.record(test, "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.record(test, "passed")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.record(test, "failed", "passed although it is expected to fail")

    def addError(self, test: Any, err: Any) -> None:
        if err[0].__name__ == "Skipped":  # pytest's, raised by importorskip
            self.record(test, "skipped", str(err[1]))
            return
        self.record(test, "failed", f"{err[0].__name__}: {err[1]}"[-1500:])

    addFailure = addError

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addError(test, err)


def run_module(name: str) -> dict[str, tuple[str, str]]:
    from numba.cuda import testing

    setattr(testing.CUDATestCase, FILECHECK_ATTRIBUTE, False)
    record = Record()
    try:
        module = importlib.import_module(name)
    except BaseException as e:  # pytest.importorskip raises Skipped
        if type(e).__name__ != "Skipped":
            raise
        return {name: ("skipped", str(e))}
    unittest.defaultTestLoader.loadTestsFromModule(module).run(record)
    return record.outcomes


def module_names() -> list[str]:
    package = importlib.import_module("numba.cuda.tests")
    found = (m.name for m in pkgutil.walk_packages(package.__path__, "numba.cuda.tests."))
    return sorted(
        n for n in found if n.rsplit(".", 1)[1].startswith("test_") and ".cudasim." not in n
    )


def run_in_process(name: str) -> dict[str, tuple[str, str]]:
    command = [sys.executable, "-m", "tests.suites.numba_cuda", "--one", name]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=MODULE_SECONDS,
            check=False,
            env=environment(),
        )
    except subprocess.TimeoutExpired:
        return {name: ("failed", f"no result within {MODULE_SECONDS} s")}
    line = next((x for x in reversed(done.stdout.splitlines()) if x.startswith('{"outcomes"')), "")
    if not line:
        return {
            name: ("failed", f"the process exited with {done.returncode}: {done.stderr[-600:]}")
        }
    outcomes: dict[str, tuple[str, str]] = json.loads(line)["outcomes"]
    return outcomes


def environment() -> dict[str, str]:
    if NODE:
        return NODE[0].remote_environment()
    return direct_environment(Path(tempfile.mkdtemp(prefix="busbar-numba-"))) | {
        "BUSBAR_SOFTGPU_DEVICES": "1"
    }


def expected_failures() -> dict[str, str]:
    """Return the reasons of numba_remainder.toml by test."""
    groups = tomllib.loads(REMAINDER.read_text())
    return {
        f"numba.cuda.tests.{name}": reason
        for group in groups.values()
        for name, reason in group.items()
    }


def unexpected_results(report: dict[str, Any], names: list[str]) -> list[str]:
    """Return failed tests that are not listed, and listed tests that did not fail."""
    failed = {n for n, (state, _) in report["not_passed"].items() if state == "failed"}
    listed = {n for n in expected_failures() if any(n.startswith(m + ".") for m in names)}
    return sorted(failed ^ listed)


def run(names: list[str], workers: int) -> dict[str, Any]:
    outcomes: dict[str, tuple[str, str]] = {}
    with ThreadPoolExecutor(workers) as pool:
        for name, found in zip(names, pool.map(run_in_process, names), strict=True):
            outcomes.update(found)
            print(
                f"{name}: {sum(o[0] == 'passed' for o in found.values())} of {len(found)}",
                file=sys.stderr,
                flush=True,
            )
    counts = {
        state: sum(o[0] == state for o in outcomes.values())
        for state in ("passed", "failed", "skipped")
    }
    return {
        "counts": counts,
        "not_passed": {k: v for k, v in sorted(outcomes.items()) if v[0] != "passed"},
    }


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print("\n" + json.dumps({"outcomes": run_module(sys.argv[2])}))
        sys.stdout.flush()
        os._exit(0)  # some tests leave threads or a context with a sticky error
    names = [a for a in sys.argv[1:] if a != "--remoted"] or module_names()
    if "--remoted" in sys.argv:
        gpu = gpu_uuids(softgpu_environment(Path(tempfile.mkdtemp(prefix="busbar-numba-"))))[0]
        NODE.append(
            LocalNode(partitions=[Partition(gpu, MEMORY_BYTES, 100)], BUSBAR_SOFTGPU_DEVICES="1")
        )
    try:
        report = run(names, len(os.sched_getaffinity(0)))
    finally:
        for node in NODE:
            node.stop()
    print(json.dumps(report, indent=1))
    if unexpected := unexpected_results(report, names):
        raise SystemExit("Different from numba_remainder.toml:\n" + "\n".join(unexpected))


if __name__ == "__main__":
    main()
