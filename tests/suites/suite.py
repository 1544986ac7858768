"""Runs a test suite of another project from a checkout, directly on a GPU and through remoting.

On the software GPU it also runs while a second allocation keeps the GPU busy.

The command fails if a run differs from the list of expected failures, failures/NAME.toml. It
changes nothing in the checkout. A complete run records its counts and writes docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.suites import compatibility, suite_failures
from tests.suites.suite_definitions import SUITES, Suite
from tests.suites.suite_environment import FOLDER, NO_NVJITLINK, prepare
from tests.suites.suite_failures import BESIDE
from tests.suites.suite_modes import NVIDIA, SOFTWARE, Mode
from tests.suites.suite_run import Outcome, Runner


def files(suite: Suite, source: Path, selected: Sequence[str] = ()) -> list[str]:
    """Return the test files below the source: all, or those that a selection names."""
    found = sorted({str(p.relative_to(source)) for g in suite.files for p in source.glob(g)})
    return [
        f
        for f in found
        if not any(fnmatch.fnmatch(f, x) for x in suite.excluded)
        and (not selected or any(s.split("::")[0] in f for s in selected))
    ]


def run(
    suite: Suite, source: Path, mode: Mode, selected: Sequence[str] = (), workers: int = 1
) -> dict[str, Outcome]:
    """Run a suite, or the selected files and tests of it, in one mode.

    A selection is a part of a file's name, or FILE::TEST. The plugins that adapt a suite to PTX
    and the absence of nvJitLink hold on the software GPU only.
    """
    prepared = prepare(suite, source)
    software = mode in SOFTWARE.values()
    adapters = suite.adapters if software else suite.fixtures
    arguments = [*suite.arguments, *(x for a in adapters for x in ("-p", a))]
    with mode() as environment:

        def file_environment(file: str) -> dict[str, str]:
            env = prepared.environment(environment())
            if suite.cache:  # a software GPU's kernels are PTX, those of NVIDIA's machine code
                env[suite.cache] = str(FOLDER / "cache" / ("ptx" if software else "machine-code"))
            if software and not any(fnmatch.fnmatch(file, x) for x in suite.machine_code):
                env["LD_PRELOAD"] = str(NO_NVJITLINK)
            return env

        runner = Runner(
            prepared.python, prepared.tests, arguments, file_environment, suite.test_seconds
        )
        tests = [s for s in selected if "::" in s]
        return runner.run(files(suite, prepared.tests, selected), workers, tests)


def counts(outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    return dict(sorted(Counter(o.state for o in outcomes.values()).items()))


def problems(
    name: str, mode: str, outcomes: Mapping[str, Outcome], selected: Sequence[str]
) -> list[str]:
    """Return what differs from the list of a suite; a selection leaves entries unused."""
    listed = suite_failures.read(suite_failures.FOLDER / f"{name}.toml", mode)
    found = suite_failures.problems(outcomes, listed)
    unused = [] if selected else suite_failures.unused(outcomes, listed)
    return [f"{mode}: {line}" for line in found + unused]


def write(path: Path, results: Mapping[str, Mapping[str, Outcome]]) -> None:
    """Write the state and the reason of every test that did not pass."""
    failed = {
        mode: {t: [o.state, o.reason] for t, o in sorted(found.items()) if o.state != "passed"}
        for mode, found in results.items()
    }
    path.write_text(json.dumps(failed, indent=1) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./test --long suite", description=__doc__)
    parser.add_argument("name", choices=sorted(SUITES))
    parser.add_argument("source", type=Path, nargs="?", help="a checkout of the suite's project")
    parser.add_argument("--select", nargs="+", default=[], metavar="FILE[::TEST]")
    parser.add_argument("--only", choices=sorted(SOFTWARE), help="one of the runs")
    parser.add_argument("--gpu", action="store_true", help="use this machine's NVIDIA GPU")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", type=Path, help="a file for the tests that did not pass")
    options = parser.parse_args()
    if options.gpu and options.only == BESIDE:
        parser.error("--only beside needs the software GPU")
    return options


def main() -> None:
    o = parse_arguments()
    suite, modes = SUITES[o.name], NVIDIA if o.gpu else SOFTWARE
    source = (o.source or suite.default_source()).resolve()
    results, found = {}, []
    for mode in [o.only] if o.only else modes:
        results[mode] = run(suite, source, modes[mode], o.select, o.workers)
        print(f"{mode}: {counts(results[mode])}", flush=True)
        found += problems(o.name, mode, results[mode], o.select)
    if o.write:
        write(o.write, results)
    if not o.select and not o.only:
        gpu = compatibility.GPUS[bool(o.gpu)]
        compatibility.record(o.name, prepare(suite, source).version, gpu, results)
    if found:
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
