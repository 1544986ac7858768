"""One software GPU that several processes of the machine share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from deploy.supervisor import BUILD, wait_for
from tests.remoting.node import direct_environment
from tests.softgpu.driver import status

DEMO = str(BUILD / "demo" / "gpu_demo")


def start_demo(folder: Path, seconds: int) -> subprocess.Popen[str]:
    """Start the demo program and block until its first result is correct."""
    env = direct_environment(folder) | {"BUSBAR_SOFTGPU_DEVICES": "1"}
    process = subprocess.Popen(
        [DEMO, "work", str(seconds)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    return process


def test_processes_take_turns_and_compute_correctly(tmp_path: Path) -> None:
    both = [start_demo(tmp_path, 3), start_demo(tmp_path, 3)]
    wait_for(
        "turns",
        lambda: sum(p["turns"] > 10 for p in status(tmp_path)["processes"]) == 2,
        tmp_path,
        10,
    )
    for process in both:
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0 and "correct after" in out, err
    assert status(tmp_path)["processes"] == []


def test_share_of_killed_process_is_released(tmp_path: Path) -> None:
    doomed, survivor = start_demo(tmp_path, 60), start_demo(tmp_path, 3)
    assert len(status(tmp_path)["processes"]) == 2
    os.kill(doomed.pid, signal.SIGKILL)
    doomed.wait()
    out, err = survivor.communicate(timeout=30)
    assert survivor.returncode == 0 and "correct after" in out, err
    assert status(tmp_path)["processes"] == []


def test_nvml_lists_every_process(tmp_path: Path) -> None:
    process = start_demo(tmp_path, 60)
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
