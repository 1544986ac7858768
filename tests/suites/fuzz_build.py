"""Build of the fuzz targets.

One Ninja file has all targets, with and without planted faults; a build makes one of them. Targets
share their objects, and variants with a fault share those that do not differ. So does the program
`limits`, which is the target `records` with another main file.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from dataclasses import replace
from pathlib import Path

from deploy.supervisor import BUILD, ROOT
from tests.remoting.conftest import cuda_include
from tests.suites.fuzz_faults import FAULTS, REMOTING, Fault
from tests.suites.fuzz_targets import GENERATED, LIBRARY, TARGETS, Target

FOLDER = BUILD.parent / "fuzz"
FLAGS = (
    "-std=c++20",
    "-O1",
    "-g1",
    "-fsanitize=fuzzer,address,undefined",
    "-fno-sanitize=function,alignment,vptr,enum",
    "-fno-sanitize-recover=undefined",
    "-fprofile-instr-generate",
    "-fcoverage-mapping",
    "-DBUSBAR_NVIDIA_RUNTIME",
)


LIMITS = "limits"


def write_faulty(fault: Fault, folder: Path) -> Path:
    """Write the faulty file below a folder of headers. Return its path."""
    file = folder / fault.file
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.read_text() != fault.text():
        file.write_text(fault.text())
    return file


def object_of(source: Path) -> str:
    return f"objects/{source.parent.name}-{source.stem}.o"


def object_rules(source: Path, output: str, headers: Path | None = None) -> list[str]:
    return [f"build {output}: compile {source}", f"  first = {f'-I{headers}' if headers else ''}"]


def faulty_objects(fault: Fault, folder: Path) -> tuple[dict[Path, str], list[str]]:
    """Return the objects of the sources with the fault, and their rules."""
    faulty = write_faulty(fault, folder)
    objects, rules = {}, []
    for source in fault.compiled():
        objects[source] = f"{folder}/{source.parent.name}-{source.stem}.o"
        compiled = faulty if source == REMOTING / fault.file else source
        rules += object_rules(compiled, objects[source], folder)
    return objects, rules


def link_rules(
    target: Target, output: str, faulty: dict[Path, str], rule: str = "link"
) -> list[str]:
    # The first definition of a function counts, so a faulty object replaces one of the library.
    objects = [*faulty.values(), *(object_of(s) for s in target.sources if s not in faulty)]
    libraries = " ".join(target.libraries)
    return [f"build {output}: {rule} {' '.join(objects)} library.a", f"  libraries = {libraries}"]


def limits_rules() -> list[str]:
    """Return the rules of a program that has a main function, where targets have the fuzzer's."""
    flags = " ".join(FLAGS).replace("=fuzzer,", "=fuzzer-no-link,")
    main, *shared = TARGETS["records"].sources
    source = main.with_name(f"{LIMITS}.cc")
    target = replace(TARGETS["records"], sources=(source, *shared))
    return [
        "rule link_program",
        f"  command = clang++ {flags} $in -o $out $libraries",
        *object_rules(source, object_of(source)),
        *link_rules(target, LIMITS, {}, "link_program"),
    ]


def build_rules() -> str:
    """Return the text of build.ninja."""
    folders = f"-I{REMOTING} -I{GENERATED} -isystem {cuda_include()}"
    lines = [
        "rule compile",
        f"  command = clang++ {' '.join(FLAGS)} $first {folders} -MMD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "rule link",
        f"  command = clang++ {' '.join(FLAGS)} $in -o $out $libraries",
        "rule archive",
        "  command = rm -f $out && ar rcs $out $in",
        f"build library.a: archive {' '.join(object_of(s) for s in LIBRARY)}",
    ]
    for source in sorted({*LIBRARY, *(s for target in TARGETS.values() for s in target.sources)}):
        lines += object_rules(source, object_of(source))
    for name, target in TARGETS.items():
        lines += link_rules(target, name, {})
        for number, fault in enumerate(FAULTS[name].values()):
            faulty, rules = faulty_objects(fault, FOLDER / f"{name}-fault{number}")
            lines += rules + link_rules(target, f"{name}-fault{number}/program", faulty)
    return "\n".join([*lines, *limits_rules(), ""])


def build(name: str, fault: str = "") -> Path:
    """Build a target, with the planted fault of that name if there is one. Return the program."""
    output = name
    if fault:
        output = f"{name}-fault{list(FAULTS[name]).index(fault)}/program"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (FOLDER / "build.ninja").write_text(build_rules())
        ninja = ROOT / ".venv" / "bin" / "ninja"
        done = subprocess.run(
            [ninja, "-C", FOLDER, "-j", str(os.cpu_count()), output],
            env=os.environ | {"CCACHE_DISABLE": "1"},  # it would change the paths of the coverage
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"the fuzz target {name} does not build:\n{done.stdout[-4000:]}")
    return FOLDER / output
