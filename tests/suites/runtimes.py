"""Every release of NVIDIA's runtime library on the null driver: `./test --long runtimes`.

One program is built against the headers and libcudart of each release. It runs over shared memory,
over TLS and without arenas. It checks the self-test, the private tables, the entry points of the
release, and that no call fails. Kernels compute nothing on the null driver.
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


def install(line: str) -> Path:
    """Install the release of a line of the lock if necessary. Return its folder."""
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


def compile_program(release: Path, kernels: Path, folder: Path) -> Path:
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


def check(node: LocalNode, binary: Path, more: dict[str, str]) -> str:
    """Run the program. Return its output if it is not as expected, otherwise an empty string."""
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


def compile_kernels(folder: Path) -> Path:
    kernels = folder / "kernels.fatbin"
    architecture = "-gencode=arch=compute_75,code=compute_75"
    nvcc = toolkit() / "bin" / "nvcc"
    command: list[str | Path] = [nvcc, "-fatbin", architecture, "-o", kernels]
    subprocess.run([*command, PROGRAMS / "kernels.cu"], check=True)
    return kernels


def main() -> None:
    node, failed = LocalNode(NULL_DRIVER), 0
    try:
        kernels = compile_kernels(node.folder)
        for line in LOCK.read_text().splitlines():
            release = install(line)
            binary = compile_program(release, kernels, node.folder)
            for mode, more in MODES.items():
                problem = check(node, binary, more)
                failed += bool(problem)
                print(f"{release.name} {mode}: {problem or 'passed'}", flush=True)
    finally:
        node.stop()
    if failed:
        raise SystemExit(f"{failed} runs failed")


if __name__ == "__main__":
    main()
