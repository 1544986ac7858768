"""libFuzzer on the software GPU's translator: `./test --long fuzz` runs ten million inputs, `python -m tests.suites.fuzz 60` a minute.

Starts from the programs of the other tests and what was found before (tests/softgpu/corpus), and prints executions, and the share of the parser's
branches that they reached.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.supervisor import BUILD, ROOT
from tests.softgpu.ptx_instructions import DONE, REFUSED, kernel
from tests.softgpu.ptx_interpreter import Maker

RUNS, LENGTH = 10_000_000, 4096
SOURCES = ROOT / "remoting" / "softgpu"
CORPUS = ROOT / "tests" / "softgpu" / "corpus"
PARSER = ("ptx/lexer.cc", "ptx/parser.cc")
BRANCHES_PERCENT = 90.0


def build(target: Path, planted: bool = False) -> None:
    """With `planted`, an operand list forgets how long it is: what the fuzzer must find."""
    sources = [
        SOURCES / "fuzz" / "ptx.cc",
        *sorted(SOURCES.glob("ptx/*.cc")),
        *sorted(SOURCES.glob("emit/*.cc")),
        BUILD / "generated" / "softgpu_runtime_text.cc",
    ]
    flags = ["-std=c++20", "-O1", "-g1", "-fsanitize=fuzzer,address", "-fprofile-instr-generate", "-fcoverage-mapping", f"-I{ROOT / 'remoting'}"]
    define = ["-DSOFTGPU_PLANTED_UNCHECKED"] if planted else []
    subprocess.run(["clang++", *flags, *define, *map(str, sources), "-o", str(target)], check=True)


def words() -> list[str]:
    """The strings that the translator compares with: libFuzzer's dictionary."""
    found = {w for f in SOURCES.glob("*/*.cc") for w in f.read_text().split('"')[1::2] if 2 <= len(w) <= 24 and w.isprintable() and "\\" not in w}
    return sorted(f'"{w}"' for w in found)


def seeds(folder: Path) -> None:
    """What the other tests make, and what fuzzing found before."""
    shutil.copytree(CORPUS, folder, dirs_exist_ok=True)
    samples = [kernel(s) for group in (*DONE.values(), *REFUSED.values()) for s in group]
    for i, text in enumerate([*samples, *(Maker(s, lockstep=s % 2 == 0).program() for s in range(6))]):
        (folder / f"seed{i}").write_text(text)


def run(target: Path, folder: Path, limit: list[str]) -> subprocess.CompletedProcess[str]:
    seeds(folder / "corpus")
    (folder / "words").write_text("\n".join(words()))
    command = [str(target), *limit, f"-max_len={LENGTH}", "-timeout=20", f"-dict={folder / 'words'}", "-print_final_stats=1", str(folder / "corpus")]
    return subprocess.run(command, env=os.environ | {"LLVM_PROFILE_FILE": str(folder / "profile")}, cwd=folder, capture_output=True, text=True, check=False)


def branches(target: Path, folder: Path) -> float:
    """Percent of the branches of lexer and parser that were taken both ways."""
    version = subprocess.run(["clang++", "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0]
    tool = {name: shutil.which(f"{name}-{version}") or name for name in ("llvm-profdata", "llvm-cov")}
    subprocess.run([tool["llvm-profdata"], "merge", str(folder / "profile"), "-o", str(folder / "merged")], check=True)
    files = [str(SOURCES / f) for f in PARSER]
    done = subprocess.run(
        [tool["llvm-cov"], "export", "-summary-only", str(target), f"-instr-profile={folder / 'merged'}", *files], capture_output=True, text=True, check=True
    )
    totals = json.loads(done.stdout)["data"][0]["totals"]["branches"]
    return float(totals["percent"])


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    folder = Path(tempfile.mkdtemp(prefix="busbar-fuzz-"))
    target = BUILD.parent / "fuzz-ptx"
    build(target)
    done = run(target, folder, [f"-max_total_time={seconds}"] if seconds else [f"-runs={RUNS}"])
    print("\n".join(line for line in done.stderr.splitlines() if "stat::" in line or "ERROR" in line or "SUMMARY" in line))
    if done.returncode:
        print(done.stderr[-4000:])
        raise SystemExit(f"The fuzzer found something: the input lies in {folder}.")
    percent = branches(target, folder)
    print(f"branches of lexer and parser: {percent:.1f} %")
    if percent < BRANCHES_PERCENT:
        raise SystemExit(f"Fewer than {BRANCHES_PERCENT} % of the branches were reached.")


if __name__ == "__main__":
    main()
