"""`busbar run`: allocate, keep a fresh ticket in a private file, run the program, release."""

from __future__ import annotations

import base64
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from remoting.cli.api import EXIT_TIMEOUT, Api, ApiError, Away

HEARTBEAT_SECONDS = 5.0
TICKET_SECONDS = 120.0
POLL_SECONDS = 0.2
PR_SET_PDEATHSIG = 1


def client_library_folder() -> Path:
    """Where libcuda.so.1 of the client lies: beside this installation, or BUSBAR_CLIENT_LIBRARY."""
    if given := os.environ.get("BUSBAR_CLIENT_LIBRARY"):
        return Path(given)
    return Path(__file__).resolve().parents[2] / "build" / "remoting" / "client"


@dataclass
class Holder:
    """Keeps one allocation held and its ticket file fresh, on a thread of its own."""

    api: Api
    allocation_id: str
    path: Path
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    ended: str = ""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._warned = False
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def write_ticket(self) -> dict[str, Any]:
        public = base64.b64encode(self.key.public_key().public_bytes_raw()).decode()
        answer = self.api.request(
            "POST", f"allocations/{self.allocation_id}/tickets", {"client_public_key": public}
        )
        lines = [
            f"key {base64.b64encode(self.key.private_bytes_raw()).decode()}",
            f"ca {base64.b64encode(answer['ca_pem'].encode()).decode()}",
        ]
        for t in answer["tickets"]:
            lines.append(f"node {t['node_id']}")
            lines += [f"endpoint {e['address']} {e['port']}" for e in t["endpoints"]]
            lines.append(f"ticket {t['ticket']}")
        fresh = self.path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(self.path)
        return answer

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _keep(self) -> None:
        renewed = time.monotonic()
        while not self._stop.wait(HEARTBEAT_SECONDS):
            try:
                state = self.api.request("POST", f"allocations/{self.allocation_id}/heartbeat")
                if state["evict_at"] and not self._warned:
                    self._warned = True
                    print(
                        f"busbar: notice: this allocation ends at {state['evict_at'][:19]} UTC: {state['end_reason']}",
                        file=sys.stderr,
                    )
                if state["state"] not in ("preparing", "active"):
                    self.ended = state["end_reason"] or f"the allocation is {state['state']}"
                    return
                if time.monotonic() - renewed > TICKET_SECONDS:
                    self.write_ticket()
                    renewed = time.monotonic()
            except Away:
                continue  # sessions go on without the appliance; so do we
            except ApiError as error:
                self.ended = str(error)
                return


def wait_until_active(
    api: Api, allocation: dict[str, Any], timeout_seconds: float | None
) -> dict[str, Any]:
    """Holds the allocation while it waits; says once why it does."""
    begun, said, held = time.monotonic(), "", 0.0
    while allocation["state"] in ("waiting", "preparing"):
        if allocation["waiting_reason"] and allocation["waiting_reason"] != said:
            said = allocation["waiting_reason"]
            print(f"busbar: waiting: {said}", file=sys.stderr)
        if timeout_seconds is not None and time.monotonic() - begun > timeout_seconds:
            raise ApiError(
                f"The allocation did not start within {timeout_seconds:.0f} s. {said}", EXIT_TIMEOUT
            )
        time.sleep(POLL_SECONDS)
        try:
            if time.monotonic() - held > HEARTBEAT_SECONDS:
                held = time.monotonic()
                allocation = api.request("POST", f"allocations/{allocation['id']}/heartbeat")
            else:
                allocation = api.request("GET", f"allocations/{allocation['id']}")
        except Away:
            continue
    if allocation["state"] != "active":
        raise ApiError(f"The allocation ended before it started: {allocation['end_reason']}")
    return allocation


def environment(ticket_path: Path, software: bool) -> dict[str, str]:
    """The program's: our library first, the path of the ticket, never the ticket itself."""
    env = dict(os.environ)
    folder = str(client_library_folder())
    env["LD_LIBRARY_PATH"] = folder + (
        ":" + env["LD_LIBRARY_PATH"] if env.get("LD_LIBRARY_PATH") else ""
    )
    env["BUSBAR_TICKET_FILE"] = str(ticket_path)
    if software:
        for name, value in software_gpu_variables().items():
            env.setdefault(name, value)
        absent = client_library_folder().parent / "softgpu" / "no-nvjitlink" / "libnvJitLink.so.13"
        if absent.exists():  # without nvJitLink, cuda.core and numba hand PTX to the driver
            env["LD_PRELOAD"] = (
                f"{absent}:{env['LD_PRELOAD']}" if env.get("LD_PRELOAD") else str(absent)
            )
    return env


def software_gpu_variables() -> dict[str, str]:
    """What keeps compilers on PTX: a software GPU has no machine code to run."""
    ptxas = str(Path(__file__).resolve().parents[1] / "softgpu" / "compilers" / "ptxas")
    return {
        "CUPY_COMPILE_WITH_PTX": "1",
        "TRITON_PTXAS_PATH": ptxas,
        "TRITON_PTXAS_BLACKWELL_PATH": ptxas,
    }


def die_with_parent() -> None:
    """If this command is killed, so is the program: its GPUs would be gone anyway."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run(
    api: Api,
    command: list[str],
    *,
    wanted: dict[str, Any],
    timeout_seconds: float | None,
    allocation_id: str = "",
) -> int:
    """The program's exit code, or 128 + signal. `wanted` is the body of the request. An allocation that was given stays; one made here is released."""
    if shutil.which(command[0]) is None:
        raise ApiError(f"There is no program {command[0]}.", 127)
    if allocation_id:
        return run_under(
            api, api.request("GET", f"allocations/{allocation_id}"), command, timeout_seconds
        )
    allocation = api.request("POST", "allocations", {"name": Path(command[0]).name[:100]} | wanted)
    try:
        return run_under(api, allocation, command, timeout_seconds)
    finally:
        release(api, allocation["id"])


def run_under(
    api: Api, allocation: dict[str, Any], command: list[str], timeout_seconds: float | None
) -> int:
    folder = Path(tempfile.mkdtemp(prefix="busbar-"))
    holder = Holder(api, allocation["id"], folder / "ticket")
    try:
        wait_until_active(api, allocation, timeout_seconds)
        answer = holder.write_ticket()
        holder.start()
        return supervise(
            holder, command, environment(holder.path, any(t["software"] for t in answer["tickets"]))
        )
    finally:
        holder.stop()
        shutil.rmtree(folder, ignore_errors=True)


def supervise(holder: Holder, command: list[str], env: dict[str, str]) -> int:
    process = subprocess.Popen(command, env=env, preexec_fn=die_with_parent)
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda number, _: process.send_signal(number))
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            continue  # the terminal sent it to the program too; it decides
    if holder.ended:
        print(f"busbar: {holder.ended}", file=sys.stderr)
    return code if code >= 0 else 128 - code


def release(api: Api, allocation_id: str) -> None:
    for _ in range(10):
        try:
            api.request("DELETE", f"allocations/{allocation_id}")
            return
        except Away:
            time.sleep(0.5)  # it ends by itself when nobody holds it
        except ApiError:
            return
