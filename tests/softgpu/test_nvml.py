"""NVML of the software GPU through nvidia-ml-py's module: readings from the real load, and conditions that a test sets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT
from tests.remoting.node import direct_environment
from tests.softgpu.test_shared_device import start

READ = """
import json
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
def ask(f, *a):
    try: return f(*a)
    except n.NVMLError as e: return f"NVML {e.value}"
def readings():
    return {"temperature": ask(n.nvmlDeviceGetTemperature, h, 0), "power": ask(n.nvmlDeviceGetPowerUsage, h),
            "ecc": ask(n.nvmlDeviceGetTotalEccErrors, h, 1, 0), "memory": str(ask(n.nvmlDeviceGetMemoryInfo, h))[:7], "name": ask(n.nvmlDeviceGetName, h)}
"""


def child(folder: Path, program: str) -> Any:
    env = direct_environment(folder) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", READ + program],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_an_idle_card_is_cool(tmp_path: Path) -> None:
    idle = child(tmp_path, "print(json.dumps(readings()))")
    assert idle["temperature"] == 34
    assert idle["power"] == 28_000
    assert idle["ecc"] == 0


def test_a_busy_card_is_warm(tmp_path: Path) -> None:
    worker = start(tmp_path, 20)
    try:
        busy = child(
            tmp_path, "while (r := readings())['temperature'] <= 50: pass\nprint(json.dumps(r))"
        )
    finally:
        worker.kill()
        worker.communicate()
    assert busy["power"] > 100_000


def test_conditions_are_what_a_test_says(tmp_path: Path) -> None:
    (tmp_path / "gpu0.conditions").write_text(
        "temperature_celsius 91\npower_milliwatts 299000\necc_uncorrected 3\n"
    )
    hot = child(tmp_path, "print(json.dumps(readings()))")
    assert (hot["temperature"], hot["power"], hot["ecc"]) == (91, 299_000, 3)


def test_a_card_that_fell_off_the_bus_is_lost(tmp_path: Path) -> None:
    (tmp_path / "gpu0.conditions").write_text("removed 1\n")
    assert set(child(tmp_path, "print(json.dumps(readings()))").values()) == {"NVML 15"}


def test_an_xid_is_an_event(tmp_path: Path) -> None:
    events = child(
        tmp_path,
        f"""
s = n.nvmlEventSetCreate(); n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, s)
before = ask(n.nvmlEventSetWait_v2, s, 30)
open({str(tmp_path / "gpu0.conditions")!r}, "w").write("xid 79\\n")
e = n.nvmlEventSetWait_v2(s, 5000)
print(json.dumps([before, e.eventData, e.eventType]))
""",
    )
    assert events == ["NVML 10", 79, 8]
