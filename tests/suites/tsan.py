"""Everything of the data plane under ThreadSanitizer: `./test --long tsan`. Client, session server, launcher and software GPU are built with it,
and so are the programs: the conformance body and the soak, over both transports. Any report fails, and a planted race must be one."""

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
from tests.remoting.test_conformance import PROGRAMS

BUILD = ROOT / "build" / "tsan"
SOAK_SECONDS = 20
TRANSPORTS = ("shm", "tls")
REPORT = "WARNING: ThreadSanitizer"


def build() -> None:
    """The window of the software GPU and the arenas lie elsewhere than usual: ThreadSanitizer's own memory is there."""
    script = '. "$ROOT/deploy/setup.sh"; LOGS="$ROOT/build/log"; build_remoting "$ROOT/build/tsan" -DSANITIZE=thread -DCMAKE_BUILD_TYPE=Release'
    subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env=os.environ | {"ROOT": str(ROOT), "PYTHON": sys.executable},
        check=True,
    )


def compiled(name: str, folder: Path) -> Path:
    flags = ["-O1", "-g", "-fsanitize=thread", f"-I{cuda_include()}", f"-I{SOURCES}"]
    subprocess.run(
        [
            "gcc",
            *flags,
            "-o",
            folder / name,
            SOURCES / f"{name}.c",
            f"-L{BUILD / 'client'}",
            "-lcuda",
            "-lpthread",
        ],
        check=True,
    )
    return folder / name


def program(
    node: local.LocalNode, folder: Path, name: str, *arguments: str, **environment: str
) -> tuple[int, str]:
    env = node.remote_environment(**environment) | {
        "LD_LIBRARY_PATH": str(BUILD / "client"),
        "BUSBAR_ARENA": "0",
        "TSAN_OPTIONS": "exitcode=66:second_deadlock_stack=1",
    }
    done = subprocess.run(
        [compiled(name, folder), *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    return done.returncode, done.stderr


def reports(node: local.LocalNode, folder: Path) -> list[str]:
    found = []
    for transport in TRANSPORTS:
        for name, *arguments in [*([p] for p in PROGRAMS), ["soak", str(SOAK_SECONDS), "8"]]:
            code, err = program(node, folder, name, *arguments, BUSBAR_TRANSPORT=transport)
            print(f"{name} over {transport}: exit {code}, {err.count(REPORT)} reports", flush=True)
            if code or REPORT in err:
                found.append(f"{name} over {transport}:\n{err[-6000:]}")
    return found


def main() -> None:
    build()
    local.PROGRAMS, local.SOFTGPU = BUILD, BUILD / "softgpu"
    with tempfile.TemporaryDirectory(prefix="busbar-tsan-") as folder:
        os.environ["BUSBAR_SOFTGPU_CACHE"] = f"{folder}/kernels"
        node = local.LocalNode(BUILD / "softgpu" / "libcuda.so.1")
        problems = reports(node, Path(folder))
        if REPORT not in program(node, Path(folder), "threads", BUSBAR_FAILPOINT_RACE="1")[1]:
            problems.append("the planted race went unnoticed")
        try:
            node.stop()
        except AssertionError as log:
            problems.append(f"on the node:\n{log}")
    if problems:
        raise SystemExit("\n".join(problems))
    print("no race was reported but the planted one")


if __name__ == "__main__":
    main()
