"""The wheel of the client, installed without a network, and programs that use it."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from deploy.client_wheel import LINUX, build
from tests.packages.conftest import Installed
from tests.system.conftest import DEMO, Pool

DEMO_ON_A_QUARTER = ("run", "-p", "25", "--timeout", "300s", "--", DEMO, "memory")


def environment(pool: Pool, **variables: str) -> dict[str, str]:
    """Return the environment of a user of the installed client, who has no checkout."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | {"BUSBAR_CONTEXT": str(pool.context)} | variables


def test_same_sources_give_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.startswith("busbar_client/")]
        files = {n: archive.read(n) for n in names}
    assert build(tmp_path, LINUX, files).read_bytes() == wheel.read_bytes()


def test_installed_command_runs_without_checkout(installed: Installed, tmp_path: Path) -> None:
    done = subprocess.run(
        [installed.path("busbar"), "--version"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("busbar ")


def test_packages_of_the_command_are_hidden_from_programs(
    installed: Installed, tmp_path: Path
) -> None:
    for module in ("typer", "rich", "yaml", "remoting"):
        done = subprocess.run(
            [installed.path("python"), "-c", f"import {module}"],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert b"ModuleNotFoundError" in done.stderr, module
    line = [installed.path("python"), "-c", "import busbar_client"]
    subprocess.run(line, cwd=tmp_path, check=True)


def test_program_runs_on_a_partition(installed: Installed, pool: Pool) -> None:
    done = subprocess.run(
        [installed.path("busbar"), *DEMO_ON_A_QUARTER],
        env=environment(pool),
        capture_output=True,
        text=True,
        check=False,
    )
    whole = pool.api.items("gpus")[0]["memory_bytes"]
    assert done.returncode == 0, done.stderr
    assert f'"total_bytes": {whole * 25 // 100 // (2 << 20) * (2 << 20)}' in done.stdout


@pytest.mark.parametrize("command", [("busbar", "smi"), ("busbar-smi",)], ids=["busbar", "link"])
def test_smi_shows_the_partition(
    installed: Installed, pool: Pool, command: tuple[str, ...]
) -> None:
    inside = [installed.path(command[0]), *command[1:]]
    fields = "--query-gpu=index,name,memory.total,utilization.gpu"
    script = f"{' '.join(inside)} && {' '.join(inside)} -L && {' '.join(inside)} {fields}"
    done = subprocess.run(
        [
            installed.path("busbar"),
            "run",
            "-p",
            "25",
            "--timeout",
            "300s",
            "--",
            "sh",
            "-c",
            script,
        ],
        env=environment(pool),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (gpu,) = {(g["model"], g["memory_bytes"]) for g in pool.api.items("gpus")}
    mib = gpu[1] * 25 // 100 // (2 << 20) * 2
    assert f"MiB / {mib}MiB" in done.stdout
    assert "No running processes found" in done.stdout  # not the command itself
    assert f"GPU 0: {gpu[0]} (UUID: GPU-" in done.stdout
    assert "index, name, memory.total [MiB], utilization.gpu [%]" in done.stdout
    assert f"0, {gpu[0]}, {mib} MiB, " in done.stdout


def test_smi_outside_of_an_allocation_says_what_to_do(installed: Installed, tmp_path: Path) -> None:
    done = subprocess.run(
        [installed.path("busbar-smi")],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "busbar run -p 10 -- busbar smi" in done.stderr


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")
def test_libraries_are_outside_of_the_linker_path(installed: Installed, tmp_path: Path) -> None:
    program = tmp_path / "load.c"
    program.write_text(
        '#include <dlfcn.h>\nint main(void) { return dlopen("libcuda.so.1", 1) != 0; }\n'
    )
    subprocess.run(["gcc", str(program), "-o", str(tmp_path / "load"), "-ldl"], check=True)
    subprocess.run([str(tmp_path / "load")], env={"PATH": "/usr/bin"}, check=True)
