"""libFuzzer on every decoder of untrusted bytes.

`./test --long fuzz [TARGET…]` runs ten million inputs for each target, and `emitted` for ten
minutes; `python -m tests.suites.fuzz 60` runs each for 60 s. A target starts from its seeds and its
committed corpus (tests/corpus/TARGET), and fuzzing adds to both. It prints the executions and the
share of the decoder's branches that were taken. `emitted` (fuzz_emitted.py) generates kernels
without libFuzzer.
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

from deploy.supervisor import BUILD, ROOT
from tests.suites import fuzz_emitted
from tests.suites.fuzz_targets import TARGETS, build

RUNS = 10_000_000
EMITTED = "emitted"
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


def branch_coverage(name: str, target: Path, folder: Path) -> float:
    """Return the percentage of the decoder's branches that were taken in both directions."""
    version = subprocess.run(
        ["clang++", "-dumpversion"], capture_output=True, text=True, check=True
    ).stdout.split(".")[0]
    tool = {n: shutil.which(f"{n}-{version}") or n for n in ("llvm-profdata", "llvm-cov")}
    subprocess.run(
        [tool["llvm-profdata"], "merge", str(folder / "profile"), "-o", str(folder / "merged")],
        check=True,
    )
    files = [str(f) for f in TARGETS[name].decoder]
    command = [
        tool["llvm-cov"],
        "export",
        "-summary-only",
        str(target),
        f"-instr-profile={folder / 'merged'}",
        *files,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["data"][0]["totals"]["branches"]["percent"])


def fuzz(name: str, seconds: int) -> str:
    """Build and run a target. Return a problem, or an empty string."""
    if name == EMITTED:
        return fuzz_emitted.fuzz(seconds)
    folder = Path(tempfile.mkdtemp(prefix=f"busbar-fuzz-{name}-"))
    target = BUILD.parent / f"fuzz-{name}"
    build(name, target)
    done = run(
        name, target, folder, [f"-max_total_time={seconds}"] if seconds else [f"-runs={RUNS}"]
    )
    executed = next(
        (
            line.split()[-1]
            for line in done.stderr.splitlines()
            if "number_of_executed_units" in line
        ),
        "no",
    )
    if done.returncode:
        return (
            f"{name}: failure after {executed} inputs; the input is in {folder}\n"
            f"{done.stderr[-4000:]}"
        )
    percent = branch_coverage(name, target, folder)
    print(f"{name}: {executed} inputs, {percent:.1f} % of the decoder's branches", flush=True)
    least = TARGETS[name].least_percent
    if percent >= least:
        return ""
    return f"{name}: branch coverage is {percent:.1f} %, expected {least} %"


def main() -> None:
    seconds = next((int(a) for a in sys.argv[1:] if a.isdigit()), 0)
    names = [a for a in sys.argv[1:] if not a.isdigit()] or [*TARGETS, EMITTED]
    with ThreadPoolExecutor(2) as two:
        problems = [p for p in two.map(lambda n: fuzz(n, seconds), names) if p]
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
