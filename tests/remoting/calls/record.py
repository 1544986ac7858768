"""The committed record of the functions that tests execute through remoting.

`python -m tests.remoting.calls.record` runs the conformance programs and the generated calls and
writes record.txt. A function that a conformance program calls names that program, because it checks
what the function does.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploy.supervisor import ROOT
from remoting.codegen import spec
from remoting.codegen.tested import RECORD, Executed, nvml_functions, read
from tests.remoting.calls import program
from tests.remoting.calls.recorder import CLIENT, Counts, Recorder, read_record
from tests.remoting.conftest import compile_program
from tests.remoting.node import LocalNode

GENERATED = "calls"


def unproven(name: str, counts: dict[str, Counts]) -> list[str]:
    """Return the claims of the record for a program that its counts do not show."""
    none = Counts(0, 0)
    found = []
    for function, executed in read(ROOT / RECORD).items():
        shown = counts.get(function, none)
        if executed.success == name and not shown.succeeded:
            found.append(f"{function} success")
        if executed.error == name and not shown.failed:
            found.append(f"{function} error")
    return found


def claims(name: str) -> bool:
    """Return whether the record names a program."""
    return any(name in (e.success, e.error) for e in read(ROOT / RECORD).values())


def implemented() -> set[str]:
    """Return the functions that the client libraries implement."""
    calls = spec.read(ROOT / "remoting" / "spec" / "cuda_driver.spec")
    return {*calls, *nvml_functions(ROOT / "remoting" / "nvml")}


def lines(counts: dict[str, dict[str, Counts]]) -> list[str]:
    """Return the lines of the record from the counts by program, the preferred program first."""
    found: dict[str, Executed] = {}
    names = implemented()
    for name, functions in counts.items():
        for function, count in functions.items():
            if function not in names:
                continue
            known = found.get(function, Executed())
            found[function] = Executed(
                known.success or (name if count.succeeded else ""),
                known.error or (name if count.failed else ""),
            )
    return [
        f"{name} success={executed.success} error={executed.error}\n"
        for name, executed in sorted(found.items())
    ]


def main() -> None:
    from tests.remoting.test_conformance import PROGRAMS

    node, counts = LocalNode(), dict[str, dict[str, Counts]]()
    folder = node.folder / "calls"
    folder.mkdir()
    recorder = Recorder(folder)
    for name in (*PROGRAMS, GENERATED):
        record = folder / f"record-{name}"
        record.mkdir()
        environment = node.remote_environment() | recorder.environment(CLIENT, record)
        command: list[str | Path] = (
            [program.build(folder), "check"]
            if name == GENERATED
            else [compile_program(name, folder)]
        )
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        counts[name] = read_record(record)
    node.stop()
    (ROOT / RECORD).write_text("".join(lines(counts)))


if __name__ == "__main__":
    main()
