"""The command `busbar run`: allocates GPUs, runs a program on them and releases them."""

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

from remoting.cli.api import EXIT_TIMEOUT, Api, ApiError, ApplianceUnreachable

HEARTBEAT_SECONDS = 5.0
TICKET_RENEWAL_SECONDS = 120.0
POLL_SECONDS = 0.2
PR_SET_PDEATHSIG = 1


def client_library_folder() -> Path:
    """Return the folder of the client library: BUSBAR_CLIENT_LIBRARY, or in this installation."""
    if given := os.environ.get("BUSBAR_CLIENT_LIBRARY"):
        return Path(given)
    return Path(__file__).resolve().parents[2] / "build" / "remoting" / "client"


@dataclass
class LeaseKeeper:
    """Thread that renews the lease and the ticket file of an allocation.

    `ended` is the reason once the allocation has ended, or empty.
    """

    api: Api
    allocation_id: str
    path: Path
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    ended: str = ""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._warned = False
        self._thread = threading.Thread(target=self._renew_until_ended, daemon=True)

    def write_ticket(self) -> dict[str, Any]:
        """Fetch new tickets and replace the ticket file atomically. Return the response."""
        public = base64.b64encode(self.key.public_key().public_bytes_raw()).decode()
        response = self.api.request(
            "POST", f"allocations/{self.allocation_id}/tickets", {"client_public_key": public}
        )
        lines = [
            f"key {base64.b64encode(self.key.private_bytes_raw()).decode()}",
            f"ca {base64.b64encode(response['ca_pem'].encode()).decode()}",
        ]
        for t in response["tickets"]:
            lines.append(f"node {t['node_id']}")
            lines += [f"endpoint {e['address']} {e['port']}" for e in t["endpoints"]]
            lines.append(f"ticket {t['ticket']}")
        new_file = self.path.with_suffix(".new")
        new_file.unlink(missing_ok=True)
        new_file.touch(mode=0o600)
        new_file.write_text("\n".join(lines) + "\n")
        new_file.replace(self.path)
        return response

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _renew_until_ended(self) -> None:
        renewed = time.monotonic()
        while not self._stop.wait(HEARTBEAT_SECONDS):
            try:
                state = self.api.request("POST", f"allocations/{self.allocation_id}/heartbeat")
                if state["evict_at"] and not self._warned:
                    self._warned = True
                    print(
                        f"busbar: notice: this allocation ends at {state['evict_at'][:19]} UTC: "
                        f"{state['end_reason']}",
                        file=sys.stderr,
                    )
                if state["state"] not in ("preparing", "active"):
                    self.ended = state["end_reason"] or f"the allocation is {state['state']}"
                    return
                if time.monotonic() - renewed > TICKET_RENEWAL_SECONDS:
                    self.write_ticket()
                    renewed = time.monotonic()
            except ApplianceUnreachable:
                continue  # sessions continue to run without the appliance
            except ApiError as error:
                if error.code == "node_locked":
                    continue  # open sessions continue
                self.ended = str(error)
                return


def wait_until_active(
    api: Api, allocation: dict[str, Any], timeout_seconds: float | None
) -> dict[str, Any]:
    """Poll until the allocation is active and return it. Renews its lease; prints each reason once.

    Raises:
        ApiError: the timeout expired, or the allocation ended.
    """
    started, reason, renewed = time.monotonic(), "", 0.0
    while allocation["state"] in ("queued", "preparing"):
        if allocation["waiting_reason"] and allocation["waiting_reason"] != reason:
            reason = allocation["waiting_reason"]
            print(f"busbar: queued: {reason}", file=sys.stderr)
        if timeout_seconds is not None and time.monotonic() - started > timeout_seconds:
            raise ApiError(
                f"The allocation did not start within {timeout_seconds:.0f} s. {reason}",
                EXIT_TIMEOUT,
            )
        time.sleep(POLL_SECONDS)
        try:
            if time.monotonic() - renewed > HEARTBEAT_SECONDS:
                renewed = time.monotonic()
                allocation = api.request("POST", f"allocations/{allocation['id']}/heartbeat")
            else:
                allocation = api.request("GET", f"allocations/{allocation['id']}")
        except ApplianceUnreachable:
            continue
    if allocation["state"] != "active":
        raise ApiError(f"The allocation ended before it started: {allocation['end_reason']}")
    return allocation


def environment(ticket_path: Path, software: bool) -> dict[str, str]:
    """Return the program's environment: client library first, and the path of the ticket file."""
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
        if absent.exists():  # without nvJitLink, cuda.core and numba pass PTX to the driver
            env["LD_PRELOAD"] = (
                f"{absent}:{env['LD_PRELOAD']}" if env.get("LD_PRELOAD") else str(absent)
            )
    return env


def software_gpu_variables() -> dict[str, str]:
    """Return variables that make compilers emit PTX; a software GPU does not run machine code."""
    ptxas = str(Path(__file__).resolve().parents[1] / "softgpu" / "compilers" / "ptxas")
    return {
        "CUPY_COMPILE_WITH_PTX": "1",
        "TRITON_PTXAS_PATH": ptxas,
        "TRITON_PTXAS_BLACKWELL_PATH": ptxas,
    }


def terminate_with_parent() -> None:
    """Request SIGTERM when the parent process dies: its lease on the GPUs ends as well."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run(
    api: Api,
    command: list[str],
    *,
    request: dict[str, Any],
    timeout_seconds: float | None,
    allocation_id: str = "",
) -> int:
    """Run a program on an allocation. Return its exit code, or 128 + signal.

    Without `allocation_id`, creates an allocation from `request` and releases it at the end.
    """
    if shutil.which(command[0]) is None:
        raise ApiError(f"Program not found: {command[0]}", 127)
    if allocation_id:
        return run_on_allocation(
            api, api.request("GET", f"allocations/{allocation_id}"), command, timeout_seconds
        )
    allocation = api.request("POST", "allocations", {"name": Path(command[0]).name[:100]} | request)
    try:
        return run_on_allocation(api, allocation, command, timeout_seconds)
    finally:
        release(api, allocation["id"])


def run_on_allocation(
    api: Api, allocation: dict[str, Any], command: list[str], timeout_seconds: float | None
) -> int:
    folder = Path(tempfile.mkdtemp(prefix="busbar-"))
    keeper = LeaseKeeper(api, allocation["id"], folder / "ticket")
    try:
        wait_until_active(api, allocation, timeout_seconds)
        tickets = keeper.write_ticket()["tickets"]
        keeper.start()
        env = environment(keeper.path, any(t["software"] for t in tickets))
        return supervise(keeper, command, env)
    finally:
        keeper.stop()
        shutil.rmtree(folder, ignore_errors=True)


def supervise(keeper: LeaseKeeper, command: list[str], env: dict[str, str]) -> int:
    """Run the program until it exits, forwarding SIGTERM and SIGHUP. Return its exit code."""
    process = subprocess.Popen(command, env=env, preexec_fn=terminate_with_parent)
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda number, _: process.send_signal(number))
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            continue  # the terminal sends SIGINT to the program as well; it may handle it
    if keeper.ended:
        print(f"busbar: {keeper.ended}", file=sys.stderr)
    return code if code >= 0 else 128 - code


def release(api: Api, allocation_id: str) -> None:
    """Release an allocation, with up to 10 attempts while the appliance is unreachable."""
    for _ in range(10):
        try:
            api.request("DELETE", f"allocations/{allocation_id}")
            return
        except ApplianceUnreachable:
            time.sleep(0.5)  # if all attempts fail, the lease expires
        except ApiError:
            return
