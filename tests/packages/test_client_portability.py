"""The client on other systems: ./test --long client.

The libraries are compiled for an old glibc, which takes minutes. Each machine is a root file system
of another release, made by debootstrap.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pip
import pytest

from deploy.client_wheel import LINUX, build
from deploy.supervisor import BUILD
from tests.packages.machines import OLDEST_GLIBC, WITH_PYTHON, Release, machine
from tests.system.conftest import DEMO, Pool

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
PRIVATE = "busbar_client/private"
LOAD = """
import ctypes, sys
cuda, nvml = (ctypes.CDLL(sys.argv[1] + "/" + n) for n in ("libcuda.so.1", "libnvidia-ml.so.1"))
print(cuda.cuInit(0), nvml.nvmlInit_v2())
"""
NO_DEVICE, DRIVER_NOT_LOADED = 100, 9


def platform_tag(wheel: Path) -> str:
    """Return the oldest platform that auditwheel finds the wheel to run on."""
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(wheel)],
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = re.findall(r'following platform tag:\s+"([a-z0-9_]+)"', done.stdout)
    return str(found)


def test_wheel_needs_glibc_2_28_at_most(portable_wheel: Path) -> None:
    release, minor = re.fullmatch(
        r"manylinux_(\d+)_(\d+)_x86_64", platform_tag(portable_wheel)
    ).groups()  # type: ignore[union-attr]
    assert (int(release), int(minor)) <= (2, 28)


def test_audit_notices_library_of_newer_glibc(portable_wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(portable_wheel) as archive:
        names = [n for n in archive.namelist() if n.startswith("busbar_client/")]
        files = {n: archive.read(n) for n in names}
    library = f"{PRIVATE}/libraries/client/libcuda.so.1"
    files[library] = (BUILD / "client" / "libcuda.so.1").read_bytes()  # of this machine's compiler
    assert platform_tag(build(tmp_path, LINUX, files)) != platform_tag(portable_wheel)


def test_wheel_has_no_compiled_python_and_no_shared_cpp_runtime(
    portable_wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(portable_wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)
    libraries = [n for n in names if ".so" in n]
    assert sorted(Path(n).name for n in libraries) == [
        "libcuda.so.1",
        "libnvJitLink.so.13",
        "libnvidia-ml.so.1",
    ]
    assert all(n.startswith(f"{PRIVATE}/libraries/") for n in libraries)
    for name in libraries:
        shown = subprocess.run(
            ["objdump", "-p", str(tmp_path / name)], capture_output=True, text=True, check=True
        ).stdout
        needed = set(re.findall(r"NEEDED +(\S+)", shown))
        assert not {n for n in needed if "stdc++" in n or "gcc_s" in n or "ssl" in n}, needed
        assert "RPATH" not in shown and "RUNPATH" not in shown


def test_libraries_load_on_oldest_glibc(portable_wheel: Path, tmp_path: Path) -> None:
    with machine(OLDEST_GLIBC, tmp_path / "machine") as old:
        with zipfile.ZipFile(portable_wheel) as archive:
            archive.extractall(old.path("/root"))
        folder = f"/root/{PRIVATE}/libraries/client"
        done = old.run("python3", "-c", LOAD, folder)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [str(NO_DEVICE), str(DRIVER_NOT_LOADED)]


@pytest.mark.parametrize("release", WITH_PYTHON, ids=lambda release: release.name)
def test_program_runs_on_release(
    release: Release, portable_packages: Path, pool: Pool, tmp_path: Path
) -> None:
    with machine(release, tmp_path / "machine") as client:
        client.install(portable_packages, "/root/packages")
        client.install(Path(pip.__file__).parent, "/root/installer/pip")
        command = [
            "python3",
            "-m",
            "pip",
            "install",
            "-q",
            "--no-index",
            "--root-user-action=ignore",
        ]
        command += ["--break-system-packages", "--find-links", "/root/packages", "busbar-client"]
        installed = client.run(*command, network=False, PYTHONPATH="/root/installer")
        assert installed.returncode == 0, installed.stderr
        shutil.copy2(DEMO, client.path("/root/program"))
        shutil.copy2(pool.context, client.path("/root/context.json"))
        line = ["busbar", "run", "-p", "25", "--timeout", "300s", "--", "sh", "-c"]
        done = client.run(
            *line, "busbar smi && /root/program memory", BUSBAR_CONTEXT="/root/context.json"
        )
        assert done.returncode == 0, done.stderr
        whole = pool.api.items("gpus")[0]["memory_bytes"]
        assert f'"total_bytes": {whole * 25 // 100 // (2 << 20) * (2 << 20)}' in done.stdout
        version = client.run("python3", "-c", "import sys; print(sys.version)").stdout
        assert version.startswith(release.python)
