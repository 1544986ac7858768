"""libFuzzer on every decoder of untrusted bytes.

`./test --long fuzz [SECONDS] [TARGET…]` runs each target for a time, two at once. Without a time
and targets it runs all so long that they take ten million inputs in total, or fails. A target
starts from its seeds and its committed corpus (tests/corpus/TARGET), and fuzzing adds to both. It
prints the executions and the share of the decoder's branches that were taken. `emitted`
(fuzz_emitted.py) generates kernels without libFuzzer. `calls` (fuzz_calls.py) calls the exported
functions with bad arguments; `./test --long fuzz calls` executes ten million calls. `calls-beside`
does so while a second allocation keeps the GPU busy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT
from tests.suites import fuzz_calls, fuzz_emitted
from tests.suites.fuzz_build import build
from tests.suites.fuzz_targets import TARGETS

INPUTS = 10_000_000
"""Of all targets in total, without a time."""
SECONDS = 100
"""Of each target in a round, without a time."""
MAX_ROUNDS = 4
"""A slow or busy machine needs more than one for the inputs."""
EMITTED = "emitted"
EMITTED_TIMES = 3
"""It compiles kernels, so it takes fewer inputs than the others in a time."""
CALLS = "calls"
CALLS_BESIDE = "calls-beside"
CORPUS = ROOT / "tests" / "corpus"


def write_seeds(name: str, folder: Path) -> None:
    """Write the generated seeds and the inputs that fuzzing found before."""
    folder.mkdir()
    if (CORPUS / name).exists():
        shutil.copytree(CORPUS / name, folder, dirs_exist_ok=True)
    for file, content in TARGETS[name].seeds().items():
        (folder / file).write_bytes(content)


def run(
    name: str, target: Path, folder: Path, limit: list[str]
) -> subprocess.CompletedProcess[str]:
    write_seeds(name, folder / "corpus")
    command = [
        str(target),
        *limit,
        f"-max_len={TARGETS[name].length}",
        "-timeout=20",
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
        "-close_fd_mask=2",  # what the decoder logs; reports do not go there
    ]
    if words := TARGETS[name].words():
        (folder / "words").write_text("\n".join(words))
        command.append(f"-dict={folder / 'words'}")
    env = os.environ | {
        "LLVM_PROFILE_FILE": str(folder / "profile"),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    }
    return subprocess.run(
        [*command, str(folder / "corpus")],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def exported_coverage(name: str, target: Path, folder: Path, *options: str) -> dict[str, Any]:
    """Return what llvm-cov knows of the decoder."""
    version = subprocess.run(
        ["clang++", "-dumpversion"], capture_output=True, text=True, check=True
    ).stdout.split(".")[0]
    tool = {n: shutil.which(f"{n}-{version}") or n for n in ("llvm-profdata", "llvm-cov")}
    subprocess.run(
        [tool["llvm-profdata"], "merge", str(folder / "profile"), "-o", str(folder / "merged")],
        check=True,
    )
    files = [str(f) for f in TARGETS[name].decoder]
    profile = f"-instr-profile={folder / 'merged'}"
    command = [tool["llvm-cov"], "export", *options, str(target), profile, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    exported: dict[str, Any] = json.loads(done.stdout)["data"][0]
    return exported


def mangled(function: str) -> str:
    """Return the part of a C++ symbol that names a member function, as in `Class::function`."""
    return "".join(f"{len(part)}{part}" for part in function.split("::"))


def branch_coverage(name: str, target: Path, folder: Path) -> float:
    """Return the percentage of the decoder's branches that were taken in both directions."""
    chosen = [mangled(f) for f in TARGETS[name].functions]
    if not chosen:
        exported = exported_coverage(name, target, folder, "-summary-only")
        return float(exported["totals"]["branches"]["percent"])
    taken = [
        count > 0
        for function in exported_coverage(name, target, folder)["functions"]
        if any(part in function["name"] for part in chosen)
        for *_, when_true, when_false, _file, _expanded, _kind in function["branches"]
        for count in (when_true, when_false)
    ]
    return 100.0 * float(sum(taken)) / len(taken)


def executed(name: str, seconds: int) -> tuple[int, str]:
    """Build and run a target. Return the number of its inputs, and a problem if there is one."""
    if name == EMITTED:
        return fuzz_emitted.fuzz(EMITTED_TIMES * seconds)
    if name in (CALLS, CALLS_BESIDE):
        return fuzz_calls.fuzz(seconds, beside=name == CALLS_BESIDE)
    folder = Path(tempfile.mkdtemp(prefix=f"busbar-fuzz-{name}-"))
    target = build(name)
    done = run(name, target, folder, [f"-max_total_time={seconds}"])
    lines = (line.split() for line in done.stderr.splitlines())
    inputs = next((int(w[-1]) for w in lines if "stat::number_of_executed_units:" in w), 0)
    if done.returncode:
        return inputs, (
            f"{name}: failure after {inputs} inputs; the input is in {folder}\n"
            f"{done.stderr[-4000:]}"
        )
    percent = branch_coverage(name, target, folder)
    shutil.rmtree(folder)
    print(f"{name}: {inputs} inputs, {percent:.1f} % of the decoder's branches", flush=True)
    least = TARGETS[name].least_percent
    if percent >= least:
        return inputs, ""
    return inputs, f"{name}: branch coverage is {percent:.1f} %, expected {least} %"


def run_targets(names: list[str], seconds: int, least: int) -> list[str]:
    """Run targets, two at once, in rounds until they took `least` inputs or one has a problem.

    Return the problems.
    """
    total, problems = 0, list[str]()
    with ThreadPoolExecutor(2) as two:
        for _ in range(MAX_ROUNDS):
            results = list(two.map(lambda n: executed(n, seconds), names))
            total += sum(inputs for inputs, _ in results)
            problems += [problem for _, problem in results if problem]
            if problems or total >= least:
                break
    print(f"all: {total} inputs")
    if total < least:
        problems.append(f"all: {total} inputs, expected {least}")
    return problems


def main() -> None:
    seconds = next((int(a) for a in sys.argv[1:] if a.isdigit()), 0)
    chosen = [a for a in sys.argv[1:] if not a.isdigit()]
    limit = seconds if chosen in ([CALLS], [CALLS_BESIDE]) else seconds or SECONDS
    least = 0 if seconds or chosen else INPUTS
    problems = run_targets(chosen or [*TARGETS, EMITTED, CALLS, CALLS_BESIDE], limit, least)
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
