"""Every release of NVIDIA's runtime, live, over the null driver: `./test --long runtimes`.

One program is built against each release's own headers and libcudart and runs through shared memory, over TLS, and without arenas. What is held: its
self-test, its private tables, the entry points of its time, and that no call fails. Kernels compute nothing here.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import nvidia

from deploy.supervisor import ROOT
from tests.remoting.node import NULL_DRIVER, LocalNode

LOCK = Path(__file__).with_suffix(".lock")
FOLDER = ROOT / "build" / "runtimes"
PROGRAMS = ROOT / "tests" / "remoting" / "programs"
MODES = {"shm": {}, "tls": {"BUSBAR_TRANSPORT": "tls"}, "without arenas": {"BUSBAR_ARENA": "0"}}


def toolkit() -> Path:
    return next(
        p for base in nvidia.__path__ for p in Path(base).iterdir() if (p / "bin" / "nvcc").exists()
    )


def installed(line: str) -> Path:
    """The folder of one locked release, fetched if it is not here yet."""
    folder = FOLDER / line.split(maxsplit=1)[0].split("==")[1]
    if not folder.exists():
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirement:
            requirement.write(line)
            requirement.flush()
            command = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "--require-hashes",
                "--only-binary=:all:",
            ]
            subprocess.run([*command, "--target", folder, "-r", requirement.name], check=True)
    return folder


def program(release: Path, kernels: Path, folder: Path) -> Path:
    include = next(p.parent for p in release.rglob("cuda_runtime_api.h"))
    library = next(p for p in release.rglob("libcudart.so.*") if "static" not in p.name)
    target = folder / f"program-{release.name}"
    flags = [f"-I{include}", f"-idirafter{toolkit() / 'include'}", f'-DKERNELS="{kernels}"', "-w"]
    subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-O1",
            *flags,
            PROGRAMS / "registered.cc",
            library,
            f"-Wl,-rpath,{library.parent}",
            "-o",
            target,
        ],
        check=True,
    )
    return target


def wrong(node: LocalNode, binary: Path, more: dict[str, str]) -> str:
    """An empty string, or what the program says."""
    done = subprocess.run(
        [binary],
        env=node.remote_environment(**more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    expected = "devices 1, NVIDIA H200, counter 7, host function 1, copies equal, failures 0\n"
    return (
        ""
        if (done.returncode, done.stdout, done.stderr) == (0, expected, "")
        else f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    )


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="busbar-runtimes-"))
    kernels = folder / "kernels.fatbin"
    subprocess.run(
        [
            toolkit() / "bin" / "nvcc",
            "-fatbin",
            "-gencode=arch=compute_75,code=compute_75",
            PROGRAMS / "kernels.cu",
            "-o",
            kernels,
        ],
        check=True,
    )
    node, failed = LocalNode(NULL_DRIVER), 0
    try:
        for line in LOCK.read_text().splitlines():
            release = installed(line)
            binary = program(release, kernels, folder)
            for mode, more in MODES.items():
                problem = wrong(node, binary, more)
                failed += bool(problem)
                print(f"{release.name} {mode}: {problem or 'right'}", flush=True)
    finally:
        node.stop()
    if failed:
        raise SystemExit(f"{failed} runs were not right")


if __name__ == "__main__":
    main()
