"""Managed memory in programs that handle, block or raise SIGSEGV."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.remoting.node import LocalNode

BY_SIGNAL = "busbar: no userfaultfd (Operation not permitted): managed memory fails in threads"
NEEDS_USERFAULTFD = ("blocked_thread", "handler_installed_last", "default_action_last")
SCENARIOS = (
    "blocked_thread_that_launches",
    "handler_installed_before_launch",
    "handler_installed_first",
    "own_fault_while_gpu_works",
    "small_signal_stack",
    "threads_at_once",
    "forked_child",
    "system_call",
    "locked_pages",
    "lost_context",
)
"""They pass also where faults of managed memory come by SIGSEGV."""
ENDS = ("own_fault_with_default_action", "raised_with_default_action")

Compiled = Callable[[str], Path]


def has_userfaultfd() -> bool:
    """Return whether the system permits userfaultfd here. Containers may forbid it."""
    number, user_mode_only = 323, 1
    fd = int(ctypes.CDLL(None).syscall(number, os.O_CLOEXEC | user_mode_only))
    if fd >= 0:
        os.close(fd)
    return fd >= 0


needs_userfaultfd = pytest.mark.skipif(not has_userfaultfd(), reason="userfaultfd is forbidden")


@pytest.fixture(
    scope="module", params=[pytest.param("userfaultfd", marks=needs_userfaultfd), "SIGSEGV"]
)
def faults(request: pytest.FixtureRequest, compiled: Compiled) -> list[str | Path]:
    """Return the command with which a program gets its faults in this way."""
    return [] if request.param == "userfaultfd" else [compiled("without_userfaultfd")]


def run(node: LocalNode, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=node.remote_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@needs_userfaultfd
@pytest.mark.parametrize("scenario", NEEDS_USERFAULTFD)
def test_managed_memory_does_not_depend_on_signals(
    node: LocalNode, compiled: Compiled, scenario: str
) -> None:
    done = run(node, compiled("managed_faults"), scenario)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_program_with_signals_reads_and_writes_managed_memory(
    node: LocalNode, compiled: Compiled, faults: list[str | Path], scenario: str
) -> None:
    done = run(node, *faults, compiled("managed_faults"), scenario)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.parametrize("scenario", ENDS)
def test_default_action_of_sigsegv_ends_the_program(
    node: LocalNode, compiled: Compiled, faults: list[str | Path], scenario: str
) -> None:
    done = run(node, *faults, compiled("managed_faults"), scenario)
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "ok\n"), done.stderr


def test_one_line_tells_that_managed_memory_depends_on_signals(
    node: LocalNode, compiled: Compiled
) -> None:
    program = compiled("managed_faults")
    done = run(node, compiled("without_userfaultfd"), program, "threads_at_once")
    lines = done.stderr.splitlines()
    assert [line.startswith(BY_SIGNAL) for line in lines] == [True]


def test_one_line_tells_why_managed_memory_is_not_available(
    node: LocalNode, compiled: Compiled
) -> None:
    done = run(node, compiled("managed_faults"), "lost_context")
    line = done.stderr.splitlines()[-1]
    assert line.startswith("busbar: managed memory at 0x"), done.stderr
    assert line.endswith(" is not available (CUDA error 700): SIGSEGV")


FAULTHANDLER = """
import ctypes, faulthandler, sys
cuda = ctypes.CDLL("libcuda.so.1")
def ok(status): assert status == 0, status
device, context, p = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
ok(cuda.cuInit(0))
ok(cuda.cuDeviceGet(ctypes.byref(device), 0))
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
ok(cuda.cuCtxSetCurrent(context))
if sys.argv[1] == "first": faulthandler.enable()
ok(cuda.cuMemAllocManaged(ctypes.byref(p), ctypes.c_size_t(65536), 1))
if sys.argv[1] == "last": faulthandler.enable()
ok(cuda.cuMemsetD8_v2(p, 90, ctypes.c_size_t(65536)))
ok(cuda.cuCtxSynchronize())
print(ctypes.string_at(p.value, 3).decode(), flush=True)
ctypes.string_at(16)
"""


@pytest.mark.parametrize("order", ["first", "last"])
def test_faulthandler_of_python_reports_faults_of_the_program_once(
    node: LocalNode, faults: list[str | Path], order: str
) -> None:
    done = run(node, *faults, sys.executable, "-c", FAULTHANDLER, order)
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "ZZZ\n"), done.stderr
    assert done.stderr.count("Fatal Python error: Segmentation fault") == 1
