#!/usr/bin/env python3
"""Check C and C++ sources under remoting/ with clang-tidy, two at a time (remoting/.clang-tidy).

Headers are checked with the sources that include them. Generated sources, fuzzers and the unit
tests are not checked. The check configures the data plane in a folder of its own, without
precompiled headers, so that a source must include what it uses, and generates its sources, but
builds nothing.

A source is skipped if its last result was clean and nothing has changed since: the source, the
headers that it includes, its compile command, the configuration and the version of clang-tidy.
The stamps are in build/stamps/clang-tidy.json. The first run takes three minutes on two cores,
a run without changes a second.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "remoting"
BUILD = ROOT / "build" / "tidy"
STAMPS = ROOT / "build" / "stamps" / "clang-tidy.json"
EXCLUDED = ("unit_tests",)
PROCESSES = 2
INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
FINDING = re.compile(r"^(?=\S+:\d+:\d+: (?:error|warning): )", re.MULTILINE)
GENERATE = """
. deploy/setup.sh
lock_checkout
log="$LOGS/clang-tidy.log"
{
  build_is_configured "$0" || configure_remoting "$0" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
  "$ROOT/.venv/bin/ninja" -C "$0" generated generated_calls
} >"$log" 2>&1 || fail_with_log "The sources could not be generated." "$log"
"""


class Entry(TypedDict):
    """Entry of compile_commands.json."""

    directory: str
    command: str
    file: str
    output: str


def generate_sources() -> None:
    """Write compile_commands.json and the generated headers, as the build does."""
    environment = {**os.environ, "ROOT": str(ROOT)}
    subprocess.run(["sh", "-ec", GENERATE, str(BUILD)], cwd=ROOT, env=environment, check=True)


def entries() -> list[Entry]:
    """Return one entry for each source: some are part of several targets."""
    database: list[Entry] = json.loads((BUILD / "compile_commands.json").read_text())
    excluded = tuple(f"{SOURCES / folder}/" for folder in EXCLUDED)
    found = {e["file"]: e for e in database if e["file"].startswith(f"{SOURCES}/")}
    return [found[name] for name in sorted(found) if not name.startswith(excluded)]


@functools.cache
def included_names(path: Path) -> list[str]:
    return [name.decode() for name in INCLUDE.findall(path.read_bytes())]


@functools.cache
def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def include_folders(command: str) -> list[Path]:
    words = shlex.split(command)
    joined = [Path(w[2:]) for w in words if w.startswith("-I")]
    return joined + [Path(words[i + 1]) for i, w in enumerate(words) if w == "-isystem"]


def inputs_of(entry: Entry) -> set[Path]:
    """Return the source and the headers that it includes, except those of the system."""
    folders = include_folders(entry["command"])
    inputs: set[Path] = set()
    waiting = [Path(entry["file"])]
    while waiting:
        path = waiting.pop()
        if path in inputs:
            continue
        inputs.add(path)
        for name in included_names(path):
            candidates = (folder / name for folder in (path.parent, *folders))
            waiting += [c for c in candidates if c.is_file()][:1]
    return inputs


def stamp_of(entry: Entry) -> str:
    """Return a checksum of everything that the result for a source depends on."""
    parts = [version("clang-tidy"), digest(ROOT / "remoting" / ".clang-tidy"), entry["command"]]
    parts += [f"{path} {digest(path)}" for path in sorted(inputs_of(entry))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def findings(source: str, database: str) -> list[str]:
    """Run clang-tidy on a source. Return its findings, or its output if it failed otherwise."""
    options = ["--quiet", "--warnings-as-errors=*", "--experimental-custom-checks"]
    command = ["clang-tidy", *options, "-p", database, source]
    result = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    if result.returncode == 0:
        return []
    return (
        FINDING.split(result.stdout.replace(f"{ROOT}/", "")) if result.stdout else [result.stderr]
    )


def check(stale: list[Entry]) -> dict[str, list[str]]:
    """Return the findings by source."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(PROCESSES) as pool:
        (Path(folder) / "compile_commands.json").write_text(json.dumps(stale))
        files = [entry["file"] for entry in stale]
        return dict(zip(files, pool.map(lambda f: findings(f, folder), files), strict=True))


def main() -> int:
    """Print the findings and return 1 if there are any."""
    generate_sources()
    clean: dict[str, str] = json.loads(STAMPS.read_text()) if STAMPS.exists() else {}
    sources = entries()
    stamps = {entry["file"]: stamp_of(entry) for entry in sources}
    results = check([e for e in sources if clean.get(e["file"]) != stamps[e["file"]]])
    failed = {file: found for file, found in results.items() if found}
    STAMPS.parent.mkdir(parents=True, exist_ok=True)
    STAMPS.write_text(json.dumps({f: s for f, s in stamps.items() if f not in failed}, indent=0))
    # A finding in a header is reported once, not for each source that includes it.
    print("".join(dict.fromkeys(text for found in failed.values() for text in found)), end="")
    print(f"{len(results)} of {len(stamps)} sources checked, {len(failed)} with findings")
    return min(len(failed), 1)


if __name__ == "__main__":
    sys.exit(main())
