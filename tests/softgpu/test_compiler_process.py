"""The compiler process: its limits, and what its parts can do if a tenant takes them over."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from tests.remoting.node import EVENT_SECONDS
from tests.softgpu.compiler_process import CompilerProcess, Request, Status
from tests.softgpu.driver import run_in_child
from tests.softgpu.test_instructions import kernel

SMALL = kernel("add.u32 %d, %a, %b;", 32)
SLOTS = 4
OUT_OF_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY: "unable to allocate enough memory or other resources"."""

Start = Callable[..., CompilerProcess]


def large_kernel(instructions: int = 40_000) -> str:
    """Return a kernel that costs the C compiler far more than a small one."""
    rng = random.Random(1)
    operations = ["add.u32", "xor.b32", "mul.lo.u32", "min.s32", "sub.u32"]
    return kernel(
        " ".join(
            f"{rng.choice(operations)} {rng.choice(['%d', '%a', '%b'])}, %{rng.choice('abd')}, "
            f"%{rng.choice('abd')}; @%q setp.lt.s32 %q, %a, %d;"
            for _ in range(instructions)
        ),
        32,
    )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as running:

        def start_process(**environment: str) -> CompilerProcess:
            process = CompilerProcess(tmp_path / "kernels", **environment)
            running.callback(process.stop)
            return process

        yield start_process


@pytest.fixture(scope="module")
def hostile_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("compiler") / "hostile_cc"
    source = Path(__file__).parent / "hostile_cc.c"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", source, "-o", target], check=True)
    return target


def await_compilation(compiler: CompilerProcess, log: Path) -> None:
    """Wait until a small kernel compiles: a busy machine may exceed the limit of a test."""
    wait_for("a compilation", lambda: compiler.compile(SMALL)[0] == Status.OK, log)


def await_description(compiler: CompilerProcess, log: Path) -> None:
    def described() -> bool:
        return compiler.request(Request.DESCRIBE, SMALL)[0] == Status.OK

    wait_for("a description", described, log)


def test_kernel_is_compiled_to_a_private_library(start: Start, tmp_path: Path) -> None:
    status, _ = start().compile(SMALL)
    assert status == Status.OK
    (library,) = (tmp_path / "kernels").glob("*.so")
    assert library.stat().st_mode & 0o777 == 0o500


@pytest.mark.parametrize(
    ("limit", "instructions"),
    [
        ({"BUSBAR_SOFTGPU_COMPILE_SECONDS": "3"}, 160_000),
        ({"BUSBAR_SOFTGPU_COMPILE_BYTES": str(256 << 20)}, 40_000),
    ],
    ids=["time", "memory"],
)
def test_kernel_beyond_a_limit_is_refused_and_the_next_one_compiles(
    start: Start, limit: dict[str, str], instructions: int, tmp_path: Path
) -> None:
    compiler = start(**limit)
    status, reason = compiler.compile(large_kernel(instructions))
    assert (status, b"limit" in reason) == (Status.LIMIT_EXCEEDED, True), reason
    await_compilation(compiler, tmp_path)
    assert len(list((tmp_path / "kernels").glob("*.so*"))) == 1


def test_limit_is_a_cuda_error_with_a_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBAR_SOFTGPU_COMPILE_BYTES", str(256 << 20))
    monkeypatch.setenv("BUSBAR_SOFTGPU_CACHE", str(tmp_path / "kernels"))
    refused, small = run_in_child([{"ptx": large_kernel()}, {"ptx": SMALL}], tmp_path)
    assert refused[:2] == ("error", OUT_OF_MEMORY)
    assert small == []
    assert "exceeded a limit of memory" in capfd.readouterr().err


def test_translator_that_ends_is_replaced(start: Start) -> None:
    compiler = start()
    assert compiler.request(Request.DESCRIBE, SMALL)[0] == Status.OK
    os.kill(compiler.translator(), signal.SIGKILL)
    status, reason = compiler.request(Request.DESCRIBE, SMALL)
    assert (status, b"translator ended" in reason) == (Status.COMPILER_FAILED, True)
    assert compiler.request(Request.DESCRIBE, SMALL)[0] == Status.OK


def test_translator_that_never_answers_is_replaced(start: Start, tmp_path: Path) -> None:
    compiler = start(BUSBAR_SOFTGPU_COMPILE_SECONDS="1")
    await_description(compiler, tmp_path)
    os.kill(compiler.translator(), signal.SIGSTOP)
    assert compiler.request(Request.DESCRIBE, SMALL)[0] == Status.LIMIT_EXCEEDED
    await_description(compiler, tmp_path)


def test_compilers_of_one_cache_are_limited(start: Start, tmp_path: Path) -> None:
    compiler = start(BUSBAR_SOFTGPU_COMPILE_SECONDS="2")
    (tmp_path / "kernels").mkdir(mode=0o700)
    with ExitStack() as held:
        for i in range(SLOTS):
            slot = held.enter_context((tmp_path / "kernels" / f"compilation-{i}").open("w"))
            fcntl.flock(slot, fcntl.LOCK_EX)
        status, reason = compiler.compile(SMALL)
        assert (status, b"other programs" in reason) == (Status.LIMIT_EXCEEDED, True), reason
    await_compilation(compiler, tmp_path)


def test_message_that_is_too_long_ends_the_process(start: Start) -> None:
    compiler = start()
    compiler.socket.sendall(struct.pack("<QQ", Request.COMPILE, 1 << 62))
    assert compiler.process.wait(EVENT_SECONDS) == 0


def test_c_compiler_that_was_taken_over_reaches_nothing(
    start: Start, hostile_compiler: Path, tmp_path: Path
) -> None:
    status, text = start(BUSBAR_SOFTGPU_CC=str(hostile_compiler)).compile(SMALL)
    assert status == Status.COMPILER_FAILED
    lines = (line.rsplit(" ", 1) for line in text.decode().splitlines())
    results = {name: int(value) for name, value in lines}
    permitted = {"own folder", "assembler"}
    assert {name for name, result in results.items() if result == 0} == permitted
    assert len(results) > 15
    assert results["shell"] == results["cache"] == errno.EACCES
    assert results["inet"] == results["unix"] == errno.ENOSYS
    assert not (tmp_path / "x").exists()


def test_translator_has_no_files_and_a_filter(start: Start) -> None:
    compiler = start()
    compiler.request(Request.DESCRIBE, SMALL)
    for pid in (compiler.process.pid, compiler.translator()):
        status = Path(f"/proc/{pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    opened = {os.readlink(f) for f in Path(f"/proc/{compiler.translator()}/fd").iterdir()}
    assert len([target for target in opened if target.startswith("socket:")]) == 1
    assert compiler.translator() != compiler.process.pid
