"""The data plane under ThreadSanitizer: `./test --long tsan`.

Client library, session server, launcher, software GPU, conformance programs and soak program are
built with it. The programs run over both transports. Those of tests/softgpu run directly on the
software GPU as well: a session server calls its driver from few threads. Any report fails; that
of the program `race` is required. Session servers run without cages: ThreadSanitizer does not see
the system call that starts one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.supervisor import ROOT
from tests.remoting import node as local
from tests.remoting.conftest import PROGRAMS as SOURCES
from tests.remoting.conftest import cuda_include
from tests.remoting.test_conformance import NEEDS_ARENAS, PROGRAMS

BUILD = ROOT / "build" / "tsan"
DRIVER = BUILD / "softgpu" / "libcuda.so.1"
DIRECT_SOURCES = ROOT / "tests" / "softgpu"
SOAK_SECONDS = 20
TRANSPORTS = ("shm", "tls")
DIRECT_PROGRAMS = ("capture_threads",)
REPORT = "WARNING: ThreadSanitizer"
OPTIONS = "exitcode=66:second_deadlock_stack=1"


def build() -> None:
    """Build with ThreadSanitizer; window and arenas move, because it uses their addresses."""
    script = (
        '. "$ROOT/deploy/setup.sh"; LOGS="$ROOT/build/log"; '
        'TARGETS="all failpoint_programs" build_remoting "$ROOT/build/tsan" '
        "-DSANITIZE=thread -DCMAKE_BUILD_TYPE=Release"
    )
    subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env=os.environ | {"ROOT": str(ROOT), "PYTHON": sys.executable},
        check=True,
    )


def compile_program(name: str, folder: Path) -> Path:
    flags = ["-O1", "-g", "-fsanitize=thread", f"-I{cuda_include()}", f"-I{SOURCES}"]
    subprocess.run(
        [
            "gcc",
            *flags,
            "-o",
            folder / name,
            next(p for p in (SOURCES / f"{name}.c", DIRECT_SOURCES / f"{name}.c") if p.exists()),
            f"-L{BUILD / 'client'}",
            "-lcuda",
            "-lpthread",
        ],
        check=True,
    )
    return folder / name


def run_program(folder: Path, name: str, *arguments: str, env: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        [compile_program(name, folder), *arguments],
        env=env | {"TSAN_OPTIONS": OPTIONS},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    return done.returncode, done.stdout[-1000:] + done.stderr


def remote_environment(node: local.LocalNode, **environment: str) -> dict[str, str]:
    return node.remote_environment(**environment) | {
        "LD_LIBRARY_PATH": str(BUILD / "client"),
        "BUSBAR_ARENA": "0",
    }


def report(name: str, how: str, *arguments: str, folder: Path, env: dict[str, str]) -> list[str]:
    """Run a program. Return a problem if it fails or ThreadSanitizer reports a race."""
    code, err = run_program(folder, name, *arguments, env=env)
    print(f"{name} {how}: exit {code}, {err.count(REPORT)} reports", flush=True)
    return [f"{name} {how}:\n{err[-6000:]}"] if code or REPORT in err else []


def reports(node: local.LocalNode, folder: Path) -> list[str]:
    found = []
    for transport in TRANSPORTS:
        programs = [*(p for p in PROGRAMS if p not in NEEDS_ARENAS), *DIRECT_PROGRAMS]
        for name, *arguments in [*([p] for p in programs), ["soak", str(SOAK_SECONDS), "8"]]:
            env = remote_environment(node, BUSBAR_TRANSPORT=transport)  # with a new ticket
            found += report(name, f"over {transport}", *arguments, folder=folder, env=env)
    for name in DIRECT_PROGRAMS:
        found += report(name, "directly", folder=folder, env=local.direct_environment(folder))
    return found


def main() -> None:
    build()
    local.BUILD, local.SOFTGPU = BUILD, BUILD / "softgpu"
    with tempfile.TemporaryDirectory(prefix="busbar-tsan-") as folder:
        os.environ["BUSBAR_SOFTGPU_CACHE"] = f"{folder}/kernels"
        node = local.LocalNode(
            DRIVER,
            TSAN_OPTIONS=OPTIONS,
            BUSBAR_FAILPOINT_NO_CAGES="1",
        )
        problems = reports(node, Path(folder))
        if REPORT not in run_program(Path(folder), "race", env=remote_environment(node))[1]:
            problems.append("the race of the program `race` was not reported")
        try:
            node.stop()
        except AssertionError as log:
            problems.append(f"on the node:\n{log}")
    if problems:
        raise SystemExit("\n".join(problems))
    print("tsan: passed, only the race of the program `race` was reported")


if __name__ == "__main__":
    main()
