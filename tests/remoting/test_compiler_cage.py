"""The compiler of a session in its cage: hostile sessions, and a C compiler that was taken over."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.supervisor import ROOT, SOFTGPU, wait_for
from tests.remoting.attacker import Attacker
from tests.remoting.node import NULL_DRIVER, NULL_DRIVER_GPUS, LocalNode
from tests.softgpu.compiler_process import Status

LOGGED = re.compile(r"^.*session output: pid \d+: ")
LIBRARY = re.compile(r"[0-9a-f]{64}\.so|compilation-\d")
OTHER_TENANT = "f" * 32
LEAST_RESULTS = 16


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder with the null driver and the compiler: its sessions have a compiler."""
    folder = tmp_path / "driver"
    folder.mkdir()
    shutil.copy(NULL_DRIVER, folder / "libcuda.so.1")
    shutil.copy(SOFTGPU / "softgpu-compiler", folder)
    return folder


@pytest.fixture
def attacker_with(
    programs: Path, tmp_path: Path, compiled: Callable[[str], Path]
) -> Iterator[Callable[..., Attacker]]:
    with ExitStack() as nodes:

        def start(c_compiler: str = "") -> Attacker:
            node = LocalNode(
                programs / "libcuda.so.1",
                NULL_DRIVER_GPUS,
                BUSBAR_SOFTGPU_CACHE=str(tmp_path / "kernels"),
                BUSBAR_SOFTGPU_CC=c_compiler,
            )
            nodes.callback(node.stop)
            return Attacker(node, compiled("attack_client"))

        yield start


def results_in(log: str) -> list[list[str]]:
    """Return names and results of attacks by a C compiler."""
    text = log.partition("compiler: ")[2]
    lines = [LOGGED.sub("", line).rsplit(" ", 1) for line in text.splitlines()]
    return [line for line in lines if line[-1].isdigit()]


def cached(folder: Path, tenant: str) -> list[str]:
    return sorted(path.name for path in (folder / "kernels" / tenant).iterdir())


def test_session_cannot_write_kernels_or_name_them(
    attacker_with: Callable[..., Attacker], tmp_path: Path
) -> None:
    attacker = attacker_with()
    other = tmp_path / "kernels" / OTHER_TENANT
    other.mkdir(parents=True)
    (other / "kernel.so").write_text("of another tenant")
    results = attacker.results(
        "write /kernels/tenant/x",
        "compile ../x",
        f"compile /kernels/tenant/../{OTHER_TENANT}/x",
        "compile k",
        f"read {other}/kernel.so",
    )
    unknown = Status.UNKNOWN_KERNEL
    assert results == [errno.EROFS, unknown, unknown, Status.OK, errno.ENOENT]
    names = cached(tmp_path, attacker.node.tenant_id.hex)
    assert [name for name in names if not LIBRARY.fullmatch(name)] == []
    assert len([name for name in names if name.endswith(".so")]) == 1
    assert cached(tmp_path, OTHER_TENANT) == ["kernel.so"]


def test_c_compiler_in_the_cage_reaches_nothing(
    attacker_with: Callable[..., Attacker], programs: Path, tmp_path: Path
) -> None:
    source, target = ROOT / "tests" / "softgpu" / "hostile_cc.c", programs / "hostile_cc"
    subprocess.run(["gcc", "-O1", source, "-o", target], check=True)
    attacker = attacker_with(str(target))
    assert attacker.results("compile k") == [Status.COMPILER_FAILED]
    log = attacker.node.folder / "launcher.log"
    # The spawner copies the output of sessions to the log.
    wait_for("the results", lambda: len(results_in(log.read_text())) >= LEAST_RESULTS, log)
    worked = {name for name, result in results_in(log.read_text()) if result == "0"}
    assert worked == {"own folder", "assembler"}
    assert not Path("/tmp/busbar-hostile-compiler").exists()
    names = cached(tmp_path, attacker.node.tenant_id.hex)
    assert [name for name in names if not name.startswith("compilation-")] == []
