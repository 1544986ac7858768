"""One software GPU that several processes of the machine share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import Process
from pathlib import Path

import pytest

from deploy.supervisor import BUILD, SOFTGPU, wait_for
from tests.remoting.node import EVENT_SECONDS, direct_environment
from tests.softgpu.driver import status

DEMO = str(BUILD / "demo" / "gpu_demo")


def start_demo(folder: Path) -> subprocess.Popen[str]:
    """Start the demo program, which works until finish(); block until a result is correct."""
    env = direct_environment(folder) | {"BUSBAR_SOFTGPU_DEVICES": "1"}
    process = subprocess.Popen(
        [DEMO, "work", "1000"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    return process


def finish(process: subprocess.Popen[str]) -> None:
    """Ask the demo program to end, and check that all its results were correct."""
    process.terminate()
    out, err = process.communicate(timeout=EVENT_SECONDS)
    assert process.returncode == 0 and "correct after" in out, err


def test_processes_take_turns_and_compute_correctly(tmp_path: Path) -> None:
    both = [start_demo(tmp_path), start_demo(tmp_path)]
    wait_for(
        "turns",
        lambda: sum(p["turns"] > 10 for p in status(tmp_path)["processes"]) == 2,
        tmp_path,
    )
    for process in both:
        finish(process)
    assert status(tmp_path)["processes"] == []


def test_share_of_killed_process_is_released(tmp_path: Path) -> None:
    doomed, survivor = start_demo(tmp_path), start_demo(tmp_path)
    assert len(status(tmp_path)["processes"]) == 2
    os.kill(doomed.pid, signal.SIGKILL)
    doomed.wait()
    finish(survivor)
    assert status(tmp_path)["processes"] == []


def test_nvml_lists_every_process(tmp_path: Path) -> None:
    process = start_demo(tmp_path)
    code = "import pynvml as n; n.nvmlInit(); h=n.nvmlDeviceGetHandleByIndex(0); "
    code += "print([p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(h)], "
    code += "n.nvmlDeviceGetMemoryInfo(h).used)"
    output = subprocess.run(
        [sys.executable, "-c", code],
        env=direct_environment(tmp_path) | {"BUSBAR_SOFTGPU_DEVICES": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    process.kill()
    process.wait()
    assert f"[{process.pid}]" in output and int(output.split()[-1]) >= 2 * (1 << 18)


def occupy(core: int) -> None:
    os.sched_setaffinity(0, {core})
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass


@pytest.mark.long
def test_clock_of_the_engine_does_not_count_descheduled_threads(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    process = start_demo(tmp_path)
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})
    other = Process(target=occupy, args=(core,))
    other.start()
    (before,) = status(tmp_path)["processes"]

    def since(name: str) -> int:
        (now,) = status(tmp_path)["processes"]
        return int(now[name] - before[name])

    wait_for("work", lambda: since("busy_nanoseconds") > 1_000_000_000, tmp_path)
    busy, executed = since("busy_nanoseconds"), since("executed_nanoseconds")
    for ended in (process, other):
        ended.kill()
    process.communicate()
    other.join()
    assert 0 < executed < 0.75 * busy


COPIES = """
import ctypes, subprocess, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, at, mib = ctypes.c_void_p(), ctypes.c_uint64(), 1 << 20
calls = [
    lambda: cuda.cuInit(0),
    lambda: cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
    lambda: cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4 * mib)),
    lambda: cuda.cuMemcpyHtoD_v2(at, bytes(mib), ctypes.c_size_t(mib)),
    lambda: cuda.cuMemsetD32_v2(at, 7, ctypes.c_size_t(mib)),
    lambda: cuda.cuMemcpyDtoD_v2(at, ctypes.c_uint64(at.value + 2 * mib), ctypes.c_size_t(2 * mib)),
    lambda: cuda.cuCtxSynchronize(),
]
assert not any(call() for call in calls)
subprocess.run([sys.argv[1]])
"""


def test_copies_and_fills_are_measured(tmp_path: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-c", COPIES, str(SOFTGPU / "softgpu-status")],
        env=direct_environment(tmp_path) | {"BUSBAR_SOFTGPU_DEVICES": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (process,) = json.loads(out)["processes"]
    assert process["copied_bytes"] == (1 + 4 + 2) << 20
    assert process["copy_nanoseconds"] > 0 and process["executed_blocks"] == 0
