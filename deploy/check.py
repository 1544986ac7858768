"""`./run --check`: starts the stack in a temporary folder and runs programs on shares of a GPU.

The last line of the output is a JSON object with the result and the seconds of each step.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from deploy.ports import free_port
from deploy.supervisor import BUILD, ROOT, SOFTGPU, Stack, wait_for

sys.path.insert(0, str(ROOT))
from nodes.top_level import exit_status_of
from remoting.cli.api import Api, Context, save_context

NUMBA = [sys.executable, str(ROOT / "deploy" / "demo" / "numba_demo.py")]
DEMO = str(BUILD / "demo" / "gpu_demo")
SHARES = (15, 35, 20, 30)


class Check:
    """The steps of the check and their results."""

    def __init__(self, stack: Stack, context: Path) -> None:
        self.stack, self.context = stack, context
        self.steps: dict[str, dict[str, Any]] = {}

    @property
    def api(self) -> Api:
        return Api(Context(**json.loads(self.context.read_text())))

    def step(self, name: str, work: Callable[[], None]) -> bool:
        """Run one step, record its result and return whether it succeeded."""
        begun = time.monotonic()
        try:
            work()
            self.steps[name] = {"ok": True, "seconds": round(time.monotonic() - begun, 2)}
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            self.steps[name] = {
                "ok": False,
                "seconds": round(time.monotonic() - begun, 2),
                "error": str(error)[-300:],
            }
        return bool(self.steps[name]["ok"])

    def start_run(self, percent: int, *command: str) -> subprocess.Popen[str]:
        line = [
            sys.executable,
            "-m",
            "remoting.cli.main",
            "run",
            "-n",
            "1",
            "-p",
            str(percent),
            "--timeout",
            "60s",
            "--",
            *command,
        ]
        env = os.environ | {"BUSBAR_CONTEXT": str(self.context), "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def busbar_run(self, percent: int, *command: str) -> str:
        process = self.start_run(percent, *command)
        out, err = process.communicate(timeout=120)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {err[-500:]}")
        return out

    def print_output(self, *command: str) -> None:
        print(self.busbar_run(25, *command).strip())

    def appliance_ready(self) -> None:
        self.stack.start_appliance()
        token = self.stack.manage(
            "create_token", "--role", "operator", "--hours", "1"
        ).splitlines()[-1]
        save_context(
            Context(self.stack.url, token, (self.stack.appliance_data / "ca.pem").read_text()),
            self.context,
        )

    def console(self) -> None:
        """Load the console's page and every script and style that it names."""
        context = ssl.create_default_context(cafile=str(self.stack.appliance_data / "ca.pem"))

        def get(path: str) -> str:
            with urllib.request.urlopen(
                self.stack.url + path, context=context, timeout=10
            ) as response:
                return str(response.read().decode())

        parts = re.findall(r'(?:src|href)="(/assets/[^"]+)"', get("/"))
        assert parts and all(get(p) for p in parts), "the console is not built"

    def node_ready(self) -> None:
        self.stack.start_node()
        wait_for(
            "the node",
            lambda: any(
                n["state"] == "ready" and n["reachable"] and n["endpoints"]
                for n in self.api.items("nodes")
            ),
            self.stack.node.logs / "agent.log",
        )
        assert self.api.items("gpus"), "the node reported no GPU"

    def partition_memory(self) -> None:
        seen = json.loads(self.busbar_run(25, DEMO, "memory"))
        whole = self.api.items("gpus")[0]["memory_bytes"]
        assert seen["total_bytes"] == whole * 25 // 100 // (2 << 20) * (2 << 20), (seen, whole)
        assert seen["free_bytes"] <= seen["total_bytes"]

    def out_of_memory(self) -> None:
        seen = json.loads(self.busbar_run(25, DEMO, "exhaust"))
        limit = self.api.items("gpus")[0]["memory_bytes"] // 4
        assert seen["error"] == 2 and limit * 0.95 <= seen["allocated_bytes"] <= limit, seen

    def four_partitions(self) -> None:
        """Run four programs on one GPU at once.

        Each result is correct, their kernels alternate, and a fifth request is queued with a
        reason.
        """
        others = [self.start_run(100, DEMO, "work", "30") for _ in self.api.items("gpus")[1:]]
        wait_for(
            "the other GPUs",
            lambda: self.active() >= len(others),
            self.stack.logs / "appliance.log",
        )
        running = [self.start_run(p, DEMO, "work", "6") for p in SHARES]
        try:
            wait_for(
                "four sessions",
                lambda: (
                    len(self.api.items("sessions", state="running")) == len(running) + len(others)
                ),
                self.stack.node.logs / "launcher.log",
                30,
            )
            fifth = self.api.request("POST", "allocations", {"percent": 10})
            assert fifth["state"] == "queued" and "10 %" in fifth["waiting_reason"], fifth
            self.api.request("DELETE", f"allocations/{fifth['id']}")
            if self.stack.software:
                wait_for(
                    "kernels of four sessions in turn",
                    lambda: sum(t > 3 for t in self.of_gpu_processes("turns")) >= len(SHARES),
                    self.stack.node.logs / "launcher.log",
                    30,
                )
            for process in running:
                out, err = process.communicate(timeout=90)
                assert process.returncode == 0 and "correct after" in out, (out, err)
        finally:
            for process in [*running, *others]:
                process.terminate()
                process.wait(30)

    def active(self) -> int:
        return len(self.api.items("allocations", state="active"))

    def of_gpu_processes(self, key: str) -> list[int]:
        """Return `turns` or `memory_bytes` of each process of a software GPU, without zeros."""
        if not self.stack.software:
            return []
        out = subprocess.run(
            [str(SOFTGPU / "softgpu-status")],
            env=self.stack.node.environment(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return [
            p[key] for line in out.splitlines() for p in json.loads(line)["processes"] if p[key]
        ]

    def released(self) -> None:
        def all_over() -> bool:
            held = [a for a in self.api.items("allocations") if a["state"] != "released"]
            return (
                not held
                and not self.api.items("sessions", state="running")
                and not self.of_gpu_processes("memory_bytes")
            )

        wait_for("the release of all allocations", all_over, self.stack.logs / "appliance.log", 30)

    def run(self) -> bool:
        self.steps["setup"] = {
            "ok": True,
            "seconds": round(float(os.environ.get("BUSBAR_SETUP_SECONDS", "0")), 2),
        }
        return (
            self.step("appliance_ready", self.appliance_ready)
            and self.step("node_ready", self.node_ready)
            and self.run_programs()
        )

    def run_programs(self) -> bool:
        """Run the steps that need a node, also after one that fails. Return whether all passed."""
        programs = {
            "numba_saxpy": [*NUMBA, "saxpy"],
            "numba_matmul": [*NUMBA, "matmul"],
            "numba_reduction": [*NUMBA, "reduction"],
            "driver_api_c": [DEMO, "add"],
        }
        ok = True
        for name, command in programs.items():
            ok &= self.step(name, partial(self.print_output, *command))
        for work in (
            self.console,
            self.partition_memory,
            self.out_of_memory,
            self.four_partitions,
            self.released,
        ):
            ok &= self.step(work.__name__, work)
        return ok


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="busbar-check-"))
    stack = Stack(folder / "data", base_port=free_port(18443, "127.0.0.1"))
    check = Check(stack, folder / "context.json")
    try:
        try:
            ok = check.run()
        finally:
            stopped = check.step("stopped", check.stack.stop)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        print("./run --check: interrupted; everything is stopped", file=sys.stderr)
        raise
    if ok and stopped:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"The files of the failed check are in {folder}", file=sys.stderr)
    print(json.dumps(check.steps))
    return 0 if ok and stopped else 1


if __name__ == "__main__":
    sys.exit(exit_status_of("./run --check", main))
