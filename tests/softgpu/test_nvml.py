"""NVML of the software GPU: metrics of the real load, and conditions set by a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT
from tests.remoting.node import direct_environment
from tests.softgpu.test_shared_device import start_demo

PRELUDE = """
import json
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
def query(f, *a):
    try: return f(*a)
    except n.NVMLError as e: return f"NVML {e.value}"
def metrics():
    return {
        "temperature": query(n.nvmlDeviceGetTemperature, h, 0),
        "power": query(n.nvmlDeviceGetPowerUsage, h),
        "ecc": query(n.nvmlDeviceGetTotalEccErrors, h, 1, 0),
        "memory": str(query(n.nvmlDeviceGetMemoryInfo, h))[:7],
        "name": query(n.nvmlDeviceGetName, h),
    }
"""


def run_child(folder: Path, program: str) -> Any:
    env = direct_environment(folder) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_idle_gpu_has_base_temperature_and_power(tmp_path: Path) -> None:
    idle = run_child(tmp_path, "print(json.dumps(metrics()))")
    assert idle["temperature"] == 34
    assert idle["power"] == 28_000
    assert idle["ecc"] == 0


def test_busy_gpu_has_higher_temperature_and_power(tmp_path: Path) -> None:
    worker = start_demo(tmp_path)
    try:
        busy = run_child(
            tmp_path, "while (r := metrics())['temperature'] <= 50: pass\nprint(json.dumps(r))"
        )
    finally:
        worker.kill()
        worker.communicate()
    assert busy["power"] > 100_000


def test_conditions_file_sets_values(tmp_path: Path) -> None:
    (tmp_path / "gpu0.conditions").write_text(
        "temperature_celsius 91\npower_milliwatts 299000\necc_uncorrected 3\n"
    )
    hot = run_child(tmp_path, "print(json.dumps(metrics()))")
    assert (hot["temperature"], hot["power"], hot["ecc"]) == (91, 299_000, 3)


def test_removed_gpu_is_lost(tmp_path: Path) -> None:
    (tmp_path / "gpu0.conditions").write_text("removed 1\n")
    assert set(run_child(tmp_path, "print(json.dumps(metrics()))").values()) == {"NVML 15"}


def test_agent_keeps_an_xid_for_ten_minutes(tmp_path: Path) -> None:
    values = run_child(
        tmp_path,
        f"""
import time
from nodes.xid import KEPT_SECONDS, XidWatch
now = [1000.0]
watch = XidWatch(lambda: now[0])
found = [watch.read(h)]
open({str(tmp_path / "gpu0.conditions")!r}, "w").write("xid 79\\n")
end = time.monotonic() + 120
while not watch.read(h) and time.monotonic() < end: time.sleep(0.01)
found.append(watch.read(h))
now[0] += KEPT_SECONDS
print(json.dumps([*found, watch.read(h)]))
""",
    )
    assert values == [0, 79, 0]


def test_xid_causes_event(tmp_path: Path) -> None:
    events = run_child(
        tmp_path,
        f"""
s = n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, s)
before = query(n.nvmlEventSetWait_v2, s, 30)
open({str(tmp_path / "gpu0.conditions")!r}, "w").write("xid 79\\n")
e = n.nvmlEventSetWait_v2(s, 120_000)
print(json.dumps([before, e.eventData, e.eventType]))
""",
    )
    assert events == ["NVML 10", 79, 8]


def test_agent_reads_the_other_gpus_while_one_is_lost(tmp_path: Path) -> None:
    """Also at its start, as here, and when all are lost."""
    (tmp_path / "gpu0.conditions").write_text("removed 1\n")
    values = run_child(
        tmp_path,
        f"""
from pathlib import Path
from nodes.gpus import Nvml
from nodes.metrics import read_metrics
folder = Path({str(tmp_path)!r})
nvml = Nvml()
def look():
    gpus = nvml.gpus()
    return [g.index for g in gpus], nvml.software(), all(read_metrics(nvml, gpus).values())
found = [look()]
(folder / "gpu1.conditions").write_text("removed 1\\n")
found.append(look())
(folder / "gpu0.conditions").unlink()
(folder / "gpu1.conditions").unlink()
print(json.dumps([*found, look()]))
""",
    )
    assert values == [[[1], True, True], [[], True, True], [[0, 1], True, True]]


def test_xid_of_a_lost_gpu_does_not_hide_those_of_others(tmp_path: Path) -> None:
    values = run_child(
        tmp_path,
        f"""
from pathlib import Path
from nodes.xid import XidWatch
folder = Path({str(tmp_path)!r})
watch, other = XidWatch(), n.nvmlDeviceGetHandleByIndex(1)
found = [watch.read(h), watch.read(other)]
(folder / "gpu0.conditions").write_text("removed 1\\nxid 79\\n")
(folder / "gpu1.conditions").write_text("xid 13\\n")
print(json.dumps([*found, query(watch.read, h), watch.read(other)]))
""",
    )
    assert values == [0, 0, "NVML 15", 13]
