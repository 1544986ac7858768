"""The command `busbar run`: allocates GPUs, runs a program on them and releases them."""

from __future__ import annotations

import base64
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remoting.cli import detached_runs
from remoting.cli.allocation_request import tell_shorter_lifetime
from remoting.cli.api import EXIT_TIMEOUT, Api, ApiError, ApplianceUnreachable
from remoting.cli.jupyter_server import JupyterServer
from remoting.cli.output import cell
from remoting.cli.printable import printable
from remoting.cli.supervision import signals_blocked, sleep, supervise
from remoting.cli.ticket_file import ALLOCATION_LINE, TicketFile
from remoting.cli.x25519 import generate_private_key, public_key_of

HEARTBEAT_SECONDS = 5.0
TICKET_RENEWAL_SECONDS = 120.0
POLL_SECONDS = 0.2
RELEASE_SECONDS = 10.0
LAST_RENEWAL_SECONDS = 2.0
FIRST_SIGNAL_CODE = 128
RUNNING = ("preparing", "active", "suspended")
"""States of an allocation after the queue that has not ended."""
UNUSED = "busbar: notice: the program did not use its GPU. If it should, "
FAILED_UNUSED = (
    "busbar: notice: the program failed, and had not used its GPU. If it failed because it found no"
    " GPU, "
)
HOW_TO_KEEP_THE_LIBRARY = (
    "look for a script that replaces LD_LIBRARY_PATH or clears the environment: keep the old value,"
    " as in LD_LIBRARY_PATH=/opt/lib:$LD_LIBRARY_PATH"
)
EndReason = Callable[[], str]
"""Returns why the program must end, as a sentence; empty, like `str`, if it need not."""
INSTALLED_LIBRARIES = "libraries/client"
"""Folder of the client library beside this package, where a package of the client installed it."""


def client_library_folder() -> Path:
    """Return the folder of the client library: BUSBAR_CLIENT_LIBRARY, or in this installation."""
    if given := os.environ.get("BUSBAR_CLIENT_LIBRARY"):
        return Path(given)
    root = Path(__file__).resolve().parents[2]
    installed = root / INSTALLED_LIBRARIES
    return installed if installed.is_dir() else root / "build" / "remoting" / "client"


@dataclass
class LeaseKeeper:
    """Thread that renews the lease and the ticket file of an allocation.

    `ended` is a sentence with the reason once the allocation has ended, or empty.
    """

    api: Api
    allocation_id: str
    file: TicketFile
    key: bytes = field(default_factory=generate_private_key, repr=False)
    ended: str = ""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._gave_up = threading.Event()
        self._warned = False
        self._renewed = time.monotonic()
        self._thread = threading.Thread(target=self._renew_until_ended, daemon=True)

    def write_ticket(self) -> dict[str, Any]:
        """Fetch new tickets and replace the ticket file. Return the response.

        Raises ApiError with the reason of the end if the allocation has ended.
        """
        public = base64.b64encode(public_key_of(self.key)).decode()
        path = f"allocations/{self.allocation_id}"
        try:
            response = self.api.request("POST", f"{path}/tickets", {"client_public_key": public})
        except ApiError as error:
            if error.code != "not_active":
                raise
            text = ending_of(self.api.request("GET", path))
            raise ApiError(text, error.exit_code, error.code) from None
        lines = [
            f"key {base64.b64encode(self.key).decode()}",
            f"{ALLOCATION_LINE} {self.allocation_id}",
        ]
        for t in response["tickets"]:
            lines.append(f"node {printable(t['node'])}")
            lines += [f"endpoint {e['address']} {e['port']}" for e in t["endpoints"]]
            lines += [f"node_key {t['node_key']}", f"ticket {t['ticket']}"]
        self.file.replace("\n".join(lines) + "\n")
        return response

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def renew_once_more(self) -> None:
        """After `stop`: find whether the allocation has ended.

        Waits LAST_RENEWAL_SECONDS at most: signals are blocked, and the appliance may not respond.
        """
        last = threading.Thread(target=self._renew_last, daemon=True)
        last.start()
        last.join(LAST_RENEWAL_SECONDS)
        self._gave_up.set()  # the allocation may be released now

    def _renew_last(self) -> None:
        self._thread.join()
        if not self.ended and not self._gave_up.is_set():
            self.renew()

    def _renew_until_ended(self) -> None:
        while not self.ended and not self._stop.wait(HEARTBEAT_SECONDS):
            self.renew()

    def renew(self) -> None:
        """Renew the lease, and the ticket when it is time. Set `ended` if the allocation ended.

        After `stop` the program has ended and needs no ticket.
        """
        try:
            state = self.api.request("POST", f"allocations/{self.allocation_id}/heartbeat")
            if state["state"] not in RUNNING:
                self.ended = ending_of(state)
                return
            self._warn_before(state)
            is_due = time.monotonic() - self._renewed > TICKET_RENEWAL_SECONDS
            if is_due and not self._stop.is_set():
                self.write_ticket()
                self._renewed = time.monotonic()
        except ApplianceUnreachable:
            pass  # sessions continue to run without the appliance
        except ApiError as error:
            if error.code != "node_locked":  # open sessions continue
                self.ended = str(error)

    def _warn_before(self, state: dict[str, Any]) -> None:
        if state["evict_at"] and not self._warned:
            self._warned = True
            print(
                f"busbar: notice: this allocation ends at {cell(state, 'evict_at')} UTC: "
                f"{state['end_reason']}",
                file=sys.stderr,
            )


def ending_of(allocation: dict[str, Any]) -> str:
    """Return when, by whom or why an allocation ended, as a sentence."""
    reason = allocation["end_reason"] or f"it is {allocation['state']}"
    when = f" at {cell(allocation, 'ended_at')} UTC" if allocation["ended_at"] else ""
    if reason.startswith("released by "):
        return f"The allocation was {reason}{when}."
    before = "" if allocation["active_at"] else " before it started"
    return f"The allocation ended{before}{when}: {reason}."


def wait_until_active(
    api: Api, allocation: dict[str, Any], timeout_seconds: float | None, end_reason: EndReason
) -> dict[str, Any]:
    """Poll until the allocation is active and return it. Renews its lease; prints each reason once.

    Raises:
        ApiError: the timeout expired, the allocation ended, or `end_reason` returned a text.
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
        sleep(POLL_SECONDS)
        if ended := end_reason():
            raise ApiError(ended)
        try:
            if time.monotonic() - renewed > HEARTBEAT_SECONDS:
                renewed = time.monotonic()
                allocation = api.request("POST", f"allocations/{allocation['id']}/heartbeat")
            else:
                allocation = api.request("GET", f"allocations/{allocation['id']}")
        except ApplianceUnreachable:
            continue
    if allocation["state"] not in ("active", "suspended"):  # a session resumes it
        raise ApiError(ending_of(allocation))
    return allocation


def environment(ticket_path: str, software: bool) -> dict[str, str]:
    """Return the program's environment: client library first, and the path of the ticket file."""
    env = dict(os.environ)
    folder = str(client_library_folder())
    env["LD_LIBRARY_PATH"] = folder + (
        ":" + env["LD_LIBRARY_PATH"] if env.get("LD_LIBRARY_PATH") else ""
    )
    env["BUSBAR_TICKET_FILE"] = ticket_path
    if software:
        for name, value in software_gpu_variables().items():
            env.setdefault(name, value)
        if absent := absent_linker():
            env["LD_PRELOAD"] = f"{absent}:{env['LD_PRELOAD']}" if env.get("LD_PRELOAD") else absent
    return env


def software_gpu_variables() -> dict[str, str]:
    """Return variables that make compilers emit PTX; a software GPU does not run machine code."""
    ptxas = str(Path(__file__).resolve().parents[1] / "softgpu" / "compilers" / "ptxas")
    return {
        "CUPY_COMPILE_WITH_PTX": "1",
        "TRITON_PTXAS_PATH": ptxas,
        "TRITON_PTXAS_BLACKWELL_PATH": ptxas,
    }


def absent_linker() -> str:
    """Return the path of a library that hides nvJitLink, or empty if it is not installed.

    Without nvJitLink, cuda.core and Numba pass PTX to the driver. LD_PRELOAD is separated by
    spaces and colons and has no escapes; a folder with one of them is named by a descriptor of
    this process, which stays open.
    """
    folder = client_library_folder().parent / "softgpu" / "no-nvjitlink"
    name = "libnvJitLink.so.13"
    if not (folder / name).exists():
        return ""
    if not {" ", ":"} & set(str(folder)):
        return str(folder / name)
    return f"/proc/{os.getpid()}/fd/{os.open(folder, os.O_PATH | os.O_DIRECTORY)}/{name}"


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
    if allocation_id:
        return run_on_existing(api, allocation_id, command, timeout_seconds=timeout_seconds)
    server = JupyterServer()
    check_program(command[0])
    with signals_blocked():
        allocation = create(api, command, request)
        return run_and_release(api, allocation, command, timeout_seconds, server.end)


def run_on_existing(
    api: Api, allocation_id: str, command: list[str], *, timeout_seconds: float | None
) -> int:
    """Run a program on an allocation that is not released. Return its exit code."""
    server = JupyterServer()
    check_program(command[0])
    with signals_blocked():
        allocation = api.request("GET", f"allocations/{allocation_id}")
        return run_on_allocation(api, allocation, command, timeout_seconds, server.end)


def run_detached(
    api: Api, command: list[str], *, request: dict[str, Any], timeout_seconds: float | None
) -> detached_runs.Run:
    """Start `run` in a process that outlives this one. The request has been accepted then."""
    check_program(command[0])
    allocation = create(api, command, request)

    def supervised() -> int:
        with signals_blocked():
            own = api.reconnected()  # not the connection of the other process
            return run_and_release(own, allocation, command, timeout_seconds)

    try:
        return detached_runs.start(allocation["id"], command, supervised)
    except ApiError:
        release(api, allocation["id"])
        raise


def create(api: Api, command: list[str], request: dict[str, Any]) -> dict[str, Any]:
    name = printable(Path(command[0]).name)[:100]
    allocation: dict[str, Any] = api.request("POST", "allocations", {"name": name} | request)
    tell_shorter_lifetime(request.get("lifetime_seconds"), allocation)
    return allocation


def run_and_release(
    api: Api,
    allocation: dict[str, Any],
    command: list[str],
    timeout_seconds: float | None,
    end_reason: EndReason = str,
) -> int:
    try:
        return run_on_allocation(api, allocation, command, timeout_seconds, end_reason)
    finally:
        release(api, allocation["id"])


def check_program(name: str) -> None:
    """Raise ApiError with the exit code of a shell if the program cannot be executed."""
    if shutil.which(name) is not None:
        return
    if "/" in name and Path(name).exists():
        raise ApiError(f"Program cannot be executed: {name}. Is its mode executable?", 126)
    raise ApiError(f"Program not found: {name}", 127)


def run_on_allocation(
    api: Api,
    allocation: dict[str, Any],
    command: list[str],
    timeout_seconds: float | None,
    end_reason: EndReason = str,
) -> int:
    keeper = LeaseKeeper(api, allocation["id"], TicketFile())
    try:
        wait_until_active(api, allocation, timeout_seconds, end_reason)
        tickets = keeper.write_ticket()["tickets"]
        env = environment(keeper.file.path, any(t["software"] for t in tickets))
        keeper.start()
        descriptors = [keeper.file.descriptor]
        code = supervise(command, env, lambda: keeper.ended or end_reason(), descriptors)
    finally:
        keeper.stop()
    if code and not (keeper.ended or end_reason()):
        keeper.renew_once_more()  # it may have failed because the allocation had ended
    if ended := keeper.ended or end_reason():
        print(f"busbar: {ended}", file=sys.stderr)
    elif code < FIRST_SIGNAL_CODE and not keeper.file.was_read():
        print((FAILED_UNUSED if code else UNUSED) + HOW_TO_KEEP_THE_LIBRARY, file=sys.stderr)
    return code


def release(api: Api, allocation_id: str) -> None:
    """Release an allocation. Repeats the request for 10 s while the appliance is unreachable.

    If all attempts fail, the lease expires.
    """
    end = time.monotonic() + RELEASE_SECONDS
    while time.monotonic() < end:
        try:
            api.request("DELETE", f"allocations/{allocation_id}")
            return
        except ApplianceUnreachable:
            time.sleep(0.5)
        except ApiError:
            return
