"""Runs what the gate leaves out, part by part: `./test --long release [PART...]`.

A part that fails does not end the others. build/release.json has of each part the commit, result,
minutes and last line of output of its last run; build/release/PART.log has the whole output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT
from tests.quarantine import quarantined

LOGS = ROOT / "build" / "release"
LONG = (
    "client",
    "complete",
    "postgresql",
    "requests",
    "fuzz",
    "sanitized",
    "tsan",
    "soak",
    "grammar",
    "runtimes",
)
"""Parts that are long runs of their own. `suite` and `torch` need a checkout, and are not parts."""


def commands() -> dict[str, list[str]]:
    """Return the command of each part."""
    found = {name: ["./test", "--long", name] for name in LONG}
    found["complete"].append("--ignore=tests/packages")  # a part of `client`
    found["audit"] = [".ci/audit"]
    found["clang-tidy"] = [".ci/check", "clang-tidy"]
    if lines := quarantined():
        found["quarantine"] = ["./test", "-n", "0", *(line.test for line in lines)]
    return found


def run(name: str, command: list[str]) -> dict[str, Any]:
    """Run a part, with its output in a file."""
    log = LOGS / f"{name}.log"
    begun = time.monotonic()
    with log.open("w") as output:
        status = subprocess.run(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
    lines = log.read_text(errors="replace").strip().splitlines()
    minutes = round((time.monotonic() - begun) / 60, 1)
    result = "failed" if status else "passed"
    print(f"release: {name}: {result} in {minutes} min", flush=True)
    return {"part": name, "result": result, "minutes": minutes, "figures": lines[-1:]}


def run_all(names: Iterable[str], report: Path) -> bool:
    """Run parts and write the report after each of them. Return whether all passed."""
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    before = json.loads(report.read_text()) if report.exists() else []
    parts: dict[str, dict[str, Any]] = {part["part"]: part for part in before}
    names = list(names)
    for name in names:
        parts[name] = run(name, commands()[name]) | {"commit": commit}
        report.write_text(json.dumps(list(parts.values()), indent=1) + "\n")
    return all(parts[name]["result"] == "passed" for name in names)


def main() -> None:
    names = sys.argv[1:] or list(commands())
    if unknown := [name for name in names if name not in commands()]:
        raise SystemExit(f"release: no part {unknown[0]!r}. Parts: {', '.join(commands())}")
    LOGS.mkdir(parents=True, exist_ok=True)
    raise SystemExit(not run_all(names, ROOT / "build" / "release.json"))


if __name__ == "__main__":
    main()
